import { formatEin, parseEin } from "../../modules/charities/charities.rules.ts";
import { tmpdir } from "node:os";
import { gzipSync } from "node:zlib";
import { testWithDatabase } from "../support/database.ts";
import { freshEin } from "../support/factories.ts";
import { contentOf, lineOf, stageCatalogue } from "./catalogueScene.ts";

const test = testWithDatabase();

const counts = (file: string, given: Record<string, number>) =>
  Object.assign({ file, read: 0, written: 0, bad: 0 }, given);

test("importing a file again, under any name and gzipped, changes nothing", async (t) => {
  const { write, load, read } = await stageCatalogue(t);
  const ein = freshEin();
  const content = `\uFEFF${contentOf(lineOf(ein, "LOADED ONCE"), lineOf(freshEin(), "CLUB", "07"))}\n`;

  const first = await load(await write("eo_vt.csv", content));
  const zipped = gzipSync(content.replaceAll("\n", "\r\n"));
  const second = await load(await write("again.csv", zipped));

  t.deepEqual(first.counts, [counts("eo_vt.csv", { read: 2, written: 2 })]);
  t.deepEqual(second.counts, [counts("again.csv", { read: 2 })]);
  const shown = { name: "LOADED ONCE", sortName: "", city: "NOWHERE", ntee: "D20" };
  t.like(await read(ein), { ...shown, eligible: true, extractedOn: "2026-04-13" });
});

test("a newer extract updates the catalogue, and an older one does not", async (t) => {
  const { write, load, read } = await stageCatalogue(t);
  const [kept, renamed, revoked] = [freshEin(), freshEin(), freshEin()];
  const extract = (name: string, subsection = "03"): string =>
    contentOf(lineOf(kept, "KEPT"), lineOf(renamed, name), lineOf(revoked, "REVOKED", subsection));
  const april = await write("april.csv", extract("OLD NAME"));
  const may = await write("may.csv", extract("NEW NAME", "04"));
  await load(april);

  const newer = await load(may, "--extracted", "2026-05-11");
  t.deepEqual(newer.counts, [counts("may.csv", { read: 3, written: 3 })]);
  const older = await load(april, "--extracted", "2026-03-09");
  t.deepEqual(older.counts, [counts("april.csv", { read: 3 })]);

  t.like(await read(renamed), { name: "NEW NAME", extractedOn: "2026-05-11" });
  t.like(await read(kept), { extractedOn: "2026-05-11" });
  t.like(await read(revoked), { eligible: false });
});

test("a malformed line is reported by its number and skipped", async (t) => {
  const { write, run, read } = await stageCatalogue(t);
  const good = freshEin();
  const content = contentOf(
    "12345,SHORT",
    lineOf("12-34", "NO EIN"),
    lineOf(freshEin(), ""),
    lineOf(freshEin(), '"OPEN QUOTE'),
    lineOf(good, '"QUOTED, ""AND"" COMMA"'),
    lineOf(freshEin(), "NUL \0"),
    lineOf(freshEin(), "X".repeat(501)),
  );
  const file = await write("eo.csv", content);
  const { exitCode, stdout, stderr } = await run("import", file, "--json");
  t.is(exitCode, 1);
  t.deepEqual(JSON.parse(stdout), [counts("eo.csv", { read: 1, written: 1, bad: 6 })]);
  const lines = [...stderr.matchAll(/eo\.csv:(\d+)/gu)].map(([, line]) => line);
  t.deepEqual(lines, ["2", "3", "4", "5", "7", "8"]);
  t.like(await read(good), { name: 'QUOTED, "AND" COMMA' });
});

test("a file that cannot be imported is named with the reason, after the counts of the files before it", async (t) => {
  const { run, write } = await stageCatalogue(t);
  const zipped = gzipSync(contentOf(lineOf(freshEin(), "CUT")));
  const damaged = Buffer.concat([zipped.subarray(0, 10), Buffer.alloc(40, 0xff)]);
  const files: readonly (readonly [string, string | Buffer, RegExp, exitCode?: number])[] = [
    ["empty.csv", "", /empty\.csv cannot be imported: the file is empty/u, 2],
    ["other.csv", "a,b,c\n1,2,3\n", /not the header of a Business Master File/u, 2],
    ["long.csv", "x".repeat(3_000_000), /A line has more than 1048576 characters/u],
    ["cut.csv", zipped.subarray(0, -9), /cut\.csv is incomplete: its gzip data ends too early\./u],
    ["damaged.csv", damaged, /damaged\.csv is damaged: its gzip data cannot be decompressed\./u],
  ];
  for (const [name, content, message, exitCode = 1] of files) {
    const failed = await run("import", await write(name, content));
    t.is(failed.exitCode, exitCode, name);
    t.regex(failed.stderr, message);
  }
  for (const [path, message] of [
    ["/nonexistent/eo1.csv", /nonexistent\/eo1\.csv cannot be read/u],
    [tmpdir(), / is a folder\./u],
    // It can be opened, and its first byte cannot be read.
    ["/proc/self/mem", /\/proc\/self\/mem cannot be read/u],
    ["-", /Standard input has no date: give --extracted\./u],
  ] as const) {
    const good = await write("good.csv", contentOf());
    const { exitCode, stdout, stderr } = await run("import", good, path, "--json");
    t.is(exitCode, 2, path);
    t.deepEqual(JSON.parse(stdout), [counts("good.csv", {})]);
    t.regex(stderr, message);
  }
});

test("a well-known charity keeps its name and website when a file adds the rest", async (t) => {
  const { write, load, run, read } = await stageCatalogue(t);
  t.like(await read("530196605"), { knownAs: "American Red Cross", extractedOn: null });

  const line = lineOf("530196605", "AMERICAN NATIONAL RED CROSS");
  await load(await write("eo_dc.csv", contentOf(line)));

  const known = { knownAs: "American Red Cross", website: "https://www.redcross.org" };
  t.like(await read("530196605"), { name: "AMERICAN NATIONAL RED CROSS", ...known });
  // The last one is in the documentation.
  for (const name of ["american red cross", "national red cross", "red crsos"]) {
    const { stdout } = await run("search", name);
    t.regex(stdout, /53-0196605 {2}American Red Cross/u);
  }
  for (const command of ["show", "search"]) {
    t.regex((await run(command, "53-0196605")).stdout, /eligible +yes/u);
  }
});

test("the JSON of charity show and search uses the API's field names", async (t) => {
  const { run } = await stageCatalogue(t);
  t.like(await run.json("show", "521693387"), {
    ein: "52-1693387",
    known_as: "World Wildlife Fund",
    sort_name: "",
    eligible: true,
    extracted_on: null,
  });
  t.deepEqual(await run.json("search", "world wildlife"), [
    {
      nonprofit_id: "irs_521693387",
      name: "World Wildlife Fund",
      ein: "52-1693387",
      description: "Environment",
      website: "https://www.worldwildlife.org",
      icon_url: "",
    },
  ]);
});

test("an EIN is read as people write it, and other texts are none", (t) => {
  const hyphens = ["-", "\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2015", "\u2212"];
  for (const written of [
    "530196605",
    " 53 0196605 ",
    "53 - 0196605",
    "EIN 53-0196605",
    "ein: 530196605",
    "EIN# 530196605",
    "EIN530196605",
    "53\u00A00196605",
    ...hyphens.map((hyphen) => `53${hyphen}0196605`),
  ]) {
    t.is(parseEin(written), "530196605", written);
  }
  for (const written of ["10202467", "1-0202467", "EIN 10202467"]) {
    t.is(parseEin(written), "010202467", written);
  }
  for (const written of [
    "",
    "EIN",
    "53-019660",
    "5301966",
    "5301966050",
    "53-O196605",
    "VEIN 530196605",
    "٥٣٠١٩٦٦٠٥",
  ]) {
    t.is(parseEin(written), null, written);
  }
  t.is(formatEin("530196605"), "53-0196605");
});
