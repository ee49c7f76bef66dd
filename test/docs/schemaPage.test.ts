import { readFile } from "node:fs/promises";
import test from "ava";

const read = (path: string): Promise<string> =>
  readFile(new URL(`../../${path}`, import.meta.url), "utf8");

/** Returns the groups of every match, joined: a comparable list of facts. */
const collect = (text: string, pattern: RegExp): readonly string[] =>
  [...text.matchAll(pattern)].map((match) => match.slice(1).join(" ")).toSorted();

test("docs/schema.md lists every table with its primary key", async (t) => {
  const listed = collect(await read("docs/schema.md"), /^\| `(\w+)` .*\| `([\w, ]+)` *\|$/gmu);
  t.true(listed.length > 20);
  t.deepEqual(
    listed,
    collect(
      await read("db/schema.sql"),
      /^CREATE (?:UNLOGGED )?TABLE (\w+) \((?:\n {2}.*)*?_pkey PRIMARY KEY \(([\w, ]+)\)/gmu,
    ),
  );
});

test("docs/schema.md draws every foreign key and no other", async (t) => {
  const drawn = collect(await read("docs/schema.md"), /^ {2}(\w+) \S+--\S+ (\w+) : (\w+)$/gmu);
  t.true(drawn.length > 20);
  const schema = await read("db/schema.sql");
  const tables = schema.matchAll(/^CREATE (?:UNLOGGED )?TABLE (?<table>\w+) \((?<body>[^;]*);/gmu);
  const keys = [...tables].flatMap(({ groups }) =>
    collect(groups?.["body"] ?? "", /FOREIGN KEY \((\w+)\) REFERENCES (\w+)\(/gu).map((key) => {
      const [column, target] = key.split(" ");
      return `${target} ${groups?.["table"]} ${column}`;
    }),
  );
  t.deepEqual(drawn, keys.toSorted());
});
