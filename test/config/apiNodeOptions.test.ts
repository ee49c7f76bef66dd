import { readFile } from "node:fs/promises";
import test from "ava";
import { API_NODE_OPTIONS } from "../../program/apiNodeOptions.ts";

for (const name of ["package.json", "docker-compose.yml"]) {
  test(`${name} starts the API with the heap that a long list needs`, async (t) => {
    const text = await readFile(new URL(`../../${name}`, import.meta.url), "utf8");
    const lines = text.split("\n").filter((line) => /\bnode\b.*api\/main\.ts/u.test(line));
    t.is(lines.length, 1);
    for (const option of API_NODE_OPTIONS) {
      t.true(lines[0]?.includes(option), option);
    }
  });
}
