import { tmpdir } from "node:os";
import { gzipSync } from "node:zlib";
import { z } from "zod";
import { readJson } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import { freshEin } from "../support/factories.ts";
import { HEADER, lineOf, stageCatalogue } from "./catalogueScene.ts";
import { startDonationApi } from "./donations/donationSetup.ts";

const test = testWithDatabase();

const counts = (file: string, given: Record<string, number>) => ({
  file,
  added: 0,
  changed: 0,
  same: 0,
  older: 0,
  bad: 0,
  ...given,
});

test("importing the same file again, under any name, changes nothing", async (t) => {
  const { write, load, read } = await stageCatalogue(t);
  const ein = freshEin();
  const content = `${HEADER}\n${lineOf(ein, "LOADED ONCE")}\n${lineOf(freshEin(), "CLUB", "07")}\n`;

  const first = await load(await write("eo_vt.csv", content));
  const second = await load(await write("again.csv", content));

  t.deepEqual(first.counts, [counts("eo_vt.csv", { added: 2 })]);
  t.deepEqual(second.counts, [counts("again.csv", { same: 2 })]);
  t.like(await read(ein), {
    name: "LOADED ONCE",
    city: "NOWHERE",
    ntee: "D20",
    eligible: true,
    extractedOn: "2026-04-13",
  });
});

test("gzip is detected by content, and line ends and a byte order mark are ignored", async (t) => {
  const { write, load, read } = await stageCatalogue(t);
  const ein = freshEin();
  const content = `\uFEFF${HEADER}\r\n${lineOf(ein, "ZIPPED")}\r\n`;
  t.deepEqual((await load(await write("eo.csv", gzipSync(content)))).counts, [
    counts("eo.csv", { added: 1 }),
  ]);
  t.like(await read(ein), { name: "ZIPPED", sortName: "" });
});

test("a newer extract updates the catalogue, and an older one does not", async (t) => {
  const { write, load, read } = await stageCatalogue(t);
  const [kept, renamed, revoked] = [freshEin(), freshEin(), freshEin()];
  const name = (text: string, subsection = "03"): string =>
    [HEADER, lineOf(kept, "KEPT"), lineOf(renamed, text), lineOf(revoked, "REVOKED", subsection)]
      .join("\n")
      .concat("\n");
  const april = await write("april.csv", name("OLD NAME"));
  const may = await write("may.csv", name("NEW NAME", "04"));
  await load(april);

  t.deepEqual((await load(may, "--extracted", "2026-05-11")).counts, [
    counts("may.csv", { changed: 2, same: 1 }),
  ]);
  t.deepEqual((await load(april, "--extracted", "2026-03-09")).counts, [
    counts("april.csv", { older: 3 }),
  ]);

  t.like(await read(renamed), { name: "NEW NAME", extractedOn: "2026-05-11" });
  t.like(await read(kept), { extractedOn: "2026-05-11" });
  t.like(await read(revoked), { eligible: false });
});

test("a charity in several files is stored once", async (t) => {
  const { write, load } = await stageCatalogue(t);
  const lines = [freshEin(), freshEin()].map((ein) => lineOf(ein, "FOREIGN"));
  const all = await write("eo4.csv", [HEADER, ...lines, lines[0]].join("\n"));
  const part = await write("eo_xx.csv", [HEADER, lines[0]].join("\n"));
  t.deepEqual((await load(all, part)).counts, [
    counts("eo4.csv", { added: 2 }),
    counts("eo_xx.csv", { same: 1 }),
  ]);
});

test("a malformed line is reported by its number and skipped", async (t) => {
  const { write, run, read } = await stageCatalogue(t);
  const good = freshEin();
  const path = await write(
    "eo.csv",
    [
      HEADER,
      "12345,SHORT",
      lineOf("12-34", "NO EIN"),
      lineOf(freshEin(), ""),
      lineOf(freshEin(), '"OPEN QUOTE'),
      lineOf(good, '"QUOTED, ""AND"" COMMA"'),
      lineOf(freshEin(), "NUL \0"),
      lineOf(freshEin(), "X".repeat(501)),
    ].join("\n"),
  );
  const { exitCode, stdout, stderr } = await run("import", path, "--json");
  t.is(exitCode, 1);
  t.deepEqual(JSON.parse(stdout), [counts("eo.csv", { added: 1, bad: 6 })]);
  t.deepEqual(
    [...stderr.matchAll(/eo\.csv:(\d+)/gu)].map(([, line]) => line),
    ["2", "3", "4", "5", "7", "8"],
  );
  t.like(await read(good), { name: 'QUOTED, "AND" COMMA' });
});

const rejects = test.macro({
  exec: async (t, content: string, message: RegExp) => {
    const { write, run } = await stageCatalogue(t);
    const { exitCode, stderr } = await run("import", await write("file.csv", content));
    t.is(exitCode, 1);
    t.regex(stderr, message);
  },
  title: (given = "") => `${given} is rejected`,
});
test("an empty file", rejects, "", /the file is empty/u);
test(
  "a file with another header",
  rejects,
  "a,b,c\n1,2,3\n",
  /not the header of a Business Master File/u,
);
test(
  "a file with an overlong line",
  rejects,
  "x".repeat(3_000_000),
  /A line has more than 1048576 characters/u,
);

test("a missing file is reported by name", async (t) => {
  const { run } = await stageCatalogue(t);
  const { exitCode, stderr } = await run("import", "/nonexistent/eo1.csv");
  t.is(exitCode, 2);
  t.regex(stderr, /nonexistent\/eo1\.csv cannot be read/u);
});

test("the counts of the finished files are printed if a later file fails", async (t) => {
  const { run, write } = await stageCatalogue(t);
  const good = await write("good.csv", `${HEADER}\n${lineOf(freshEin(), "GOOD")}\n`);
  const { exitCode, stdout } = await run("import", good, "/nonexistent/eo2.csv", "--json");
  t.is(exitCode, 2);
  t.deepEqual(JSON.parse(stdout), [counts("good.csv", { added: 1 })]);
});

test("a folder and an incomplete or damaged gzip file are reported by name", async (t) => {
  const { run, write } = await stageCatalogue(t);
  const zipped = gzipSync(`${HEADER}\n${lineOf(freshEin(), "CUT")}\n`);
  const damaged = Buffer.concat([zipped.subarray(0, 10), Buffer.alloc(40, 0xff)]);
  const files = {
    "cut.csv": [zipped.subarray(0, -9), /cut\.csv is incomplete: its gzip data ends too early\./u],
    "damaged.csv": [damaged, /damaged\.csv is damaged: its gzip data cannot be decompressed\./u],
  } as const;
  for (const [name, [content, message]] of Object.entries(files)) {
    const path = await write(name, content);
    for (const links of [[], ["--links"]]) {
      const failed = await run("import", path, ...links);
      t.is(failed.exitCode, 1);
      t.regex(failed.stderr, message);
    }
  }
  const folder = await run("import", tmpdir());
  t.is(folder.exitCode, 2);
  t.regex(folder.stderr, / is a folder\./u);
  const piped = await run("import", "-");
  t.is(piped.exitCode, 2);
  t.regex(piped.stderr, /Standard input has no date: give --extracted\./u);
});

test("a well-known charity keeps its name and website when a file adds the rest", async (t) => {
  const { write, load, run, read } = await stageCatalogue(t);
  t.like(await read("530196605"), { knownAs: "American Red Cross", extractedOn: null });

  await load(
    await write("eo_dc.csv", `${HEADER}\n${lineOf("530196605", "AMERICAN NATIONAL RED CROSS")}`),
  );

  t.like(await read("530196605"), {
    name: "AMERICAN NATIONAL RED CROSS",
    knownAs: "American Red Cross",
    website: "https://www.redcross.org",
  });
  for (const name of ["american red cross", "national red cross", "53-0196605"]) {
    const { stdout, stderr } = await run("search", name);
    t.regex(stdout, /53-0196605 {2}American Red Cross/u);
    t.regex(stderr, /^1 found; page 1 of 1/u);
  }
  const shown = await run("show", "53-0196605");
  t.regex(shown.stdout, /eligible for donations +yes/u);
});

test("the JSON of charity show and search uses the API's field names", async (t) => {
  const { run } = await stageCatalogue(t);
  const shown = readJson(await run("show", "521693387", "--json"));
  t.like(shown, {
    ein: "52-1693387",
    known_as: "World Wildlife Fund",
    sort_name: "",
    eligible: true,
    extracted_on: null,
  });
  t.deepEqual(readJson(await run("search", "world wildlife", "--json")), {
    total_items: 1,
    charities: [
      {
        nonprofit_id: "irs_521693387",
        name: "World Wildlife Fund",
        ein: "52-1693387",
        description: "Environment",
        website: "https://www.worldwildlife.org",
        icon_url: "",
      },
    ],
  });
});

test("charity show rejects a malformed and an unknown EIN, and charity search finds nothing for two letters that fit no name", async (t) => {
  const { run } = await stageCatalogue(t);
  t.is((await run("show", "53-01966")).exitCode, 2);
  t.is((await run("show", "000000001")).exitCode, 3);
  const search = await run("search", "qx");
  t.is(search.exitCode, 0);
  t.true(search.stderr.includes("No charities found."));
});

test("the search in the documentation finds a charity of the initial catalogue", async (t) => {
  const { run } = await stageCatalogue(t);
  const { stdout } = await run("search", "red crsos");
  t.regex(stdout, /American Red Cross/u);
});

test("charity search says that a page after the last one has no charities", async (t) => {
  const { run } = await stageCatalogue(t);
  const { exitCode, stdout, stderr } = await run("search", "530196605", "--page", "9");
  t.is(exitCode, 0);
  t.is(stdout, "");
  t.is(stderr, "No charities on page 9; 1 found.\n");
});

test("an operator's search follows the rule of the API for short names, other scripts and no letters", async (t) => {
  const { run } = await stageCatalogue(t);
  const search = async (name: string): Promise<Record<string, unknown>> => {
    const { stdout, exitCode } = await run("search", name, "--json");
    t.is(exitCode, 0, name);
    return z.record(z.string(), z.unknown()).parse(JSON.parse(stdout));
  };

  const found = await search("of");
  t.true(Number(found["total_items"]) > 0);
  for (const name of ["赤十字", "!?", "qx"]) {
    t.deepEqual(await search(name), { total_items: 0, charities: [] }, name);
  }
  const { stderr } = await run("search", "赤");
  t.is(stderr, "No charities found.\n");
});

test("imported websites and icons are in search results, and malformed lines are skipped and reported", async (t) => {
  const { call, live } = await startDonationApi(t);
  const { run, write } = await stageCatalogue(t);
  const path = await write(
    "links.ndjson",
    [
      '{"ein": "53-0196605", "icon_url": "https://icons.example/red.png"}',
      '{"ein": "999999999", "website": "https://unknown.example"}',
      '{"ein": "53-0196605", "icon_url": "javascript:alert(1)"}',
      "nonsense",
      "",
    ].join("\n"),
  );
  const done = await run("import", "--links", path, "--json");
  t.is(done.exitCode, 1);
  t.deepEqual(JSON.parse(done.stdout), [{ file: "links.ndjson", updated: 1, unknown: 1, bad: 2 }]);
  t.regex(done.stderr, /links\.ndjson:3 skipped: icon_url: must be an http/u);
  t.regex(done.stderr, /links\.ndjson:4 skipped: not valid JSON/u);

  const { body } = await call("GET", "/charities/search?ein=530196605", { key: live });
  t.like(body, {
    charities: [{ website: "https://www.redcross.org", icon_url: "https://icons.example/red.png" }],
  });
});
