import { readFile } from "node:fs/promises";
import test from "ava";
import { SETTING_NAMES, parseConfig } from "../../config/config.ts";

const ONLY_FOR_COMPOSE = new Set(["POSTGRES_PASSWORD", "PUBLISH_ADDRESS"]);

const readExample = async (): Promise<Readonly<Record<string, string>>> => {
  const text = await readFile(new URL("../../.env.example", import.meta.url), "utf8");
  const lines = text.matchAll(/^#(?<name>[A-Z_]+)=(?<value>.*)$/gmu);
  return Object.fromEntries([...lines].map(({ groups }) => [groups?.["name"], groups?.["value"]]));
};

test(".env.example names every setting and no other", async (t) => {
  const names = Object.keys(await readExample()).filter((name) => !ONLY_FOR_COMPOSE.has(name));
  t.deepEqual(names.toSorted(), SETTING_NAMES.toSorted());
});

test(".env.example shows values that work, and the defaults where there are any", async (t) => {
  const shown = parseConfig(await readExample());
  t.like(shown, parseConfig({}));
});
