import { findCatalogueWords } from "../../db/charities/charityWords.ts";
import { upsertCharities } from "../../db/charities/charityImports.ts";
import type { MasterFileRecord } from "../../domain/charities/businessMasterFile.ts";
import { createCatalogue } from "../../providers/charities/catalogue/createCatalogue.ts";
import { readJson, impactOf } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import { CHARITY_RECORD } from "./charityRecord.ts";
import { startDonationApi } from "./donations/donationSetup.ts";

const test = testWithDatabase();

const PAGE_SIZE = 20;
const MANY = 550;

/** Invented names that more charities have than a search counts, and others that contain theirs. */
const CHARITIES: readonly Partial<MasterFileRecord>[] = [
  ...Array.from({ length: MANY }, (_, index) => ({
    ein: String(960_000_000 + index),
    name: `THE ${"LONG ".repeat(index % 5)}QUOKKA COLONY ${index}`,
    incomeCode: index % 10,
  })),
  { ein: "961000001", name: "QUOKKASAURUS CLUB", incomeCode: 9 },
  { ein: "961000002", name: "NUMBAT HUMANE SOCIETY" },
  { ein: "961000003", name: "NUMBATS AND FRIENDS OF THE SOCIETY", incomeCode: 9 },
  { ein: "961000004", name: "FRIENDS OF THE NUMBAT SOCIETY", incomeCode: 3 },
];

test.before(async (t) => {
  const records = CHARITIES.map((charity) => Object.assign({}, CHARITY_RECORD, charity));
  await t.context.db.transaction((transaction) =>
    upsertCharities(transaction, records, "2026-04-13"),
  );
  await t.context.db.transaction((transaction) =>
    upsertCharities(
      transaction,
      [{ ...CHARITY_RECORD, ein: "530196605", name: "AMERICAN QUOKKA CROSS" }],
      "2026-04-13",
    ),
  );
});

const never = new AbortController().signal;

const find =
  (t: { readonly context: { readonly db: Parameters<typeof createCatalogue>[0]["searches"] } }) =>
  (name: string, page = 1) =>
    createCatalogue({ db: t.context.db, searches: t.context.db }).search(
      { name, ein: null, page, pageSize: PAGE_SIZE },
      never,
    );

test("of a word that more than 500 charities have, pages list each of them once, the well-known and the large first", async (t) => {
  const search = find(t);
  const eins: string[] = [];
  let pages = 1;
  for (let page = 1; page <= pages; page += 1) {
    const found = await search("quokka", page);
    t.false(found.totalIsExact);
    t.true(found.totalItems > 500 && found.totalItems <= MANY + 1);
    pages = Math.ceil(found.totalItems / PAGE_SIZE);
    eins.push(...found.items.map(({ ein }) => ein ?? ""));
  }

  t.is(eins.length, MANY + 1);
  t.is(new Set(eins).size, MANY + 1);
  t.is(eins[0], "530196605");
  const incomeCodes = eins.slice(1).map((ein) => Number(ein) % 10);
  t.deepEqual(
    incomeCodes,
    incomeCodes.toSorted((a, b) => b - a),
  );
});

test("the beginning of such a word finds them too, with the charities that have a longer word", async (t) => {
  const { totalItems, totalIsExact, items } = await find(t)("quokk");
  t.is(totalItems, 501);
  t.false(totalIsExact);
  t.is(items[0]?.name, "American Red Cross");
  t.true(items.some(({ name }) => name === "QUOKKASAURUS CLUB"));
});

test("the first pages of such a word do not count the rest, in the API and on the command line", async (t) => {
  const { call, test: key } = await startDonationApi(t);
  const { body, headers } = await call("GET", "/charities/search?name=quokka", { key });
  t.like(body, { total_items: 501, total_pages: 26 });
  t.is(headers.get("Total-Is-Exact"), "false");

  const impact = impactOf(t);
  const shown = await impact("charity", "search", "quokka");
  t.regex(shown.stderr, /^At least 501 found; page 1\. /u);
  t.like(readJson(await impact("charity", "search", "quokka", "--json")), {
    total_items: 501,
    total_is_exact: false,
  });
});

test("of few matches, the closest is first, and parts of words are counted", async (t) => {
  const { items, ...total } = await find(t)("numbat society");
  t.deepEqual(
    items.map(({ name }) => name),
    [
      "NUMBAT HUMANE SOCIETY",
      "FRIENDS OF THE NUMBAT SOCIETY",
      "NUMBATS AND FRIENDS OF THE SOCIETY",
    ],
  );
  t.deepEqual(total, { totalItems: 3, totalIsExact: true });
});

test("of several parts of words that more than 500 charities have, pages list each of them once", async (t) => {
  const search = find(t);
  const eins: string[] = [];
  let pages = 1;
  for (let page = 1; page <= pages; page += 1) {
    const found = await search("colon uokk", page);
    t.false(found.totalIsExact);
    pages = Math.ceil(found.totalItems / PAGE_SIZE);
    eins.push(...found.items.map(({ ein }) => ein ?? ""));
  }
  t.is(eins.length, MANY);
  t.is(new Set(eins).size, MANY);
});

test("of several words that more than 1,000 charities have, the last page has the rest of them", async (t) => {
  const { items, totalItems } = await find(t)("quokka colony", Math.ceil(MANY / PAGE_SIZE));
  t.is(totalItems, MANY);
  t.is(items.length, MANY % PAGE_SIZE);
});

test("two words without the space between them are found", async (t) => {
  const { items, totalItems } = await find(t)("humanesociety numbat");
  t.is(totalItems, 1);
  t.is(items[0]?.name, "NUMBAT HUMANE SOCIETY");
});

test("a word that nothing is similar to is left out, if little of the search is lost", async (t) => {
  t.is((await find(t)("numbat humane society xqz")).totalItems, 1);
  t.is((await find(t)("numbat xqzwvjkq")).totalItems, 0);
});

test("a search of many words finds the charities that have them all", async (t) => {
  const { items } = await find(t)("friends of the numbat society the of friends society numbat");
  t.deepEqual(
    items.map(({ name }) => name),
    ["FRIENDS OF THE NUMBAT SOCIETY", "NUMBATS AND FRIENDS OF THE SOCIETY"],
  );
});

test("each word is counted with the eligible charities that have it", async (t) => {
  const write = (given: Partial<MasterFileRecord>, extractedOn: string) =>
    t.context.db.transaction((transaction) =>
      upsertCharities(
        transaction,
        [{ ...CHARITY_RECORD, ein: "963000001", ...given }],
        extractedOn,
      ),
    );
  const counts = async () =>
    Object.fromEntries(await findCatalogueWords(t.context.db, ["potoroo", "bilby"]));
  await write({ name: "POTOROO POTOROO" }, "2026-04-13");
  t.deepEqual(await counts(), { potoroo: 1 });
  await write({ name: "BILBY POTOROO" }, "2026-05-11");
  t.deepEqual(await counts(), { potoroo: 1, bilby: 1 });
  await write({ name: "BILBY" }, "2026-06-08");
  t.deepEqual(await counts(), { bilby: 1 });
  await write({ name: "BILBY", subsection: "04" }, "2026-07-13");
  t.deepEqual(await counts(), {});
});

test("a page after the last has no charities and the total of all", async (t) => {
  t.deepEqual(await find(t)("numbat society", 2), {
    items: [],
    totalItems: 3,
    totalIsExact: true,
  });
});

const corrects = test.macro({
  exec: async (t, name: string) => {
    const { items, totalItems } = await find(t)(name);
    t.is(totalItems, 1);
    t.is(items[0]?.name, "NUMBAT HUMANE SOCIETY");
  },
  title: (given = "") => `a search corrects ${given}`,
});

test("a missing letter", corrects, "numbat humane socety");
test("an added letter", corrects, "nummbat humane society");
test("a wrong letter", corrects, "numbat humane sociaty");
test("two letters that are exchanged", corrects, "nubmat humane society");
test("a typo in each word", corrects, "numbt humnae sociey");

test("if more is wrong than a letter of each word, similar names are found", async (t) => {
  const { items } = await find(t)("numbathumane society");
  t.is(items[0]?.name, "NUMBAT HUMANE SOCIETY");
});

test("a word with a typo is found under its new name when a newer extract renames the charity", async (t) => {
  const ein = "962000001";
  const rename = (name: string, extractedOn: string) =>
    t.context.db.transaction((transaction) =>
      upsertCharities(transaction, [{ ...CHARITY_RECORD, ein, name }], extractedOn),
    );
  await rename("BETTONG RESCUE", "2026-04-13");
  t.is((await find(t)("bettnog")).totalItems, 1);
  await rename("WALLAROO RESCUE", "2026-05-11");
  t.is((await find(t)("walaroo")).totalItems, 1);
  t.is((await find(t)("bettong")).totalItems, 0);
});
