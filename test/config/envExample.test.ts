import { readFile } from "node:fs/promises";
import test from "ava";
import { SETTING_NAMES, parseConfig } from "../../config/config.ts";

const COMPOSE_ONLY = new Set([
  "POSTGRES_PASSWORD",
  "OWNER_PASSWORD",
  "APP_PASSWORD",
  "READER_PASSWORD",
  "TEMPORAL_PASSWORD",
  "PUBLISH_ADDRESS",
  "UI_PUBLISH_ADDRESS",
]);

const readExample = async (): Promise<Readonly<Record<string, string>>> => {
  const text = await readFile(new URL("../../.env.example", import.meta.url), "utf8");
  const lines = text.matchAll(/^#(?<name>[A-Z_]+)=(?<value>.*)$/gmu);
  return Object.fromEntries([...lines].map(({ groups }) => [groups?.["name"], groups?.["value"]]));
};

test(".env.example lists every setting and no other", async (t) => {
  const names = Object.keys(await readExample()).filter((name) => !COMPOSE_ONLY.has(name));
  t.deepEqual(names.toSorted(), SETTING_NAMES.toSorted());
});

test("the values in .env.example are valid, and equal to the defaults if there are any", async (t) => {
  const shown = parseConfig(await readExample());
  t.like(shown, parseConfig({}));
});
