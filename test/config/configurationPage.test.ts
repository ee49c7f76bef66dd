import { readFile } from "node:fs/promises";
import test from "ava";
import { SETTING_NAMES, parseConfig } from "../../config/config.ts";

/** Returns the rows of the page's tables: each setting with what its default column says. */
const readDocumented = async (): Promise<readonly (readonly [string, string])[]> => {
  const text = await readFile(new URL("../../docs/configuration.md", import.meta.url), "utf8");
  const rows = text.matchAll(/^\| `(?<name>[^`]+)` *\| (?<fallback>[^|]+?) *\|/gmu);
  return [...rows].map(({ groups }) => [groups?.["name"] ?? "", groups?.["fallback"] ?? ""]);
};

test("docs/configuration.md documents every setting once, and no other", async (t) => {
  const names = (await readDocumented()).map(([name]) => name);
  t.deepEqual(names.toSorted(), SETTING_NAMES.toSorted());
});

test("docs/configuration.md states every default", async (t) => {
  const defaults = new Map(Object.entries(parseConfig({})));
  const expected = SETTING_NAMES.map((name) => {
    const value = defaults.get(name);
    return [name, value === undefined ? "not set" : `\`${value}\``] as const;
  });
  t.deepEqual(Object.fromEntries(await readDocumented()), Object.fromEntries(expected));
});
