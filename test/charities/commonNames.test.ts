import { upsertCharities } from "../../modules/charities/charityImports.sql.ts";
import type { MasterFileRecord } from "../../modules/charities/businessMasterFile.rules.ts";
import { z } from "zod";
import type { ExecutionContext } from "ava";
import type { Charity } from "../../modules/charities/charities.rules.ts";
import { createCatalogue } from "../../modules/charities/createCatalogue.ts";
import { readJson, impactOf } from "../cli/runImpact.ts";
import type { DatabaseContext } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { CHARITY_RECORD } from "./charityRecord.ts";
import { startDonationApi } from "./donations/donationSetup.ts";

const test = testWithDatabase();

const PAGE_SIZE = 20;
const MANY = 550;

/** Invented names: of hundreds of charities, and others that contain theirs. */
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
  { ein: "961000005", name: "MOUNT ZION FIRST BANDICOOT CHURCH", incomeCode: 9 },
  { ein: "961000006", name: "FIRST BANDICOOT CHURCHES", incomeCode: 9 },
  { ein: "961000007", name: "FIRST BANDICOOT CHURCH OF NOWHERE" },
  { ein: "961000008", name: "FIRST BANDICOOT CHURCH" },
  { ein: "961000009", name: "OUR FIRST BANDICOOT CHURCHES" },
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

/** Reads all pages of a search, whose totals must be exact. */
const readAll = async (
  t: ExecutionContext<DatabaseContext>,
  name: string,
): Promise<readonly Charity[]> => {
  const charities: Charity[] = [];
  let pages = 1;
  for (let page = 1; page <= pages; page += 1) {
    const { items, totalItems, totalIsExact } = await find(t)(name, page);
    t.true(totalIsExact);
    pages = Math.ceil(totalItems / PAGE_SIZE);
    charities.push(...items);
  }
  return charities;
};

test("of a word that hundreds of charities have, the total is exact and pages list each of them once, the well-known first", async (t) => {
  const charities = await readAll(t, "quokka");
  t.is(new Set(charities.map(({ ein }) => ein)).size, MANY + 2);
  t.is(charities.length, MANY + 2);
  t.is(charities[0]?.ein, "530196605");
  // It has a longer word that begins with the given one.
  t.is(charities.at(-1)?.name, "QUOKKASAURUS CLUB");
});

test("of equally close names, the short ones are first, and of these the larger charities", async (t) => {
  const charities = (await readAll(t, "the quokka colony")).filter(({ name }) =>
    /^THE QUOKKA COLONY \d{2}$/u.test(name),
  );
  const incomeCodes = charities.map(({ ein }) => Number(ein) % 10);
  t.true(incomeCodes.length > 10);
  t.deepEqual(
    incomeCodes,
    incomeCodes.toSorted((a, b) => b - a),
  );
});

test("the beginning of such a word finds them too, with the charities that have a longer word", async (t) => {
  const { totalItems, totalIsExact, items } = await find(t)("quokk");
  t.is(totalItems, MANY + 2);
  t.true(totalIsExact);
  t.true(items.some(({ name }) => name === "QUOKKASAURUS CLUB"));
  t.true((await readAll(t, "quokk")).some(({ name }) => name === "American Red Cross"));
});

test("the total of such a word is exact in the API and on the command line", async (t) => {
  const { call, test: key } = await startDonationApi(t);
  const { body, headers } = await call("GET", "/charities/search?name=quokka", { key });
  const pages = Math.ceil((MANY + 2) / PAGE_SIZE);
  t.like(body, { total_items: MANY + 2, total_pages: pages });
  t.is(headers.get("Total-Is-Exact"), null);
  const last = await call("GET", `/charities/search?name=quokka&page=${pages}`, { key });
  t.is(z.array(z.unknown()).parse(last.body["charities"]).length, (MANY + 2) % PAGE_SIZE);
  const beyond = await call("GET", `/charities/search?name=quokka&page=${pages + 1}`, { key });
  t.like(beyond.body, { total_items: MANY + 2, total_pages: pages, charities: [] });

  const impact = impactOf(t);
  const shown = await impact("charity", "search", "quokka");
  t.is(shown.stderr, `${MANY + 2} found; page 1 of ${pages}.\n`);
  t.like(readJson(await impact("charity", "search", "quokka", "--json")), {
    total_items: MANY + 2,
  });
});

test("an exact name is first, then names that begin with the search, then those with all words, then longer words", async (t) => {
  t.deepEqual(
    (await readAll(t, "first bandicoot church")).map(({ name }) => name),
    [
      "FIRST BANDICOOT CHURCH",
      "FIRST BANDICOOT CHURCH OF NOWHERE",
      "MOUNT ZION FIRST BANDICOOT CHURCH",
      "FIRST BANDICOOT CHURCHES",
      "OUR FIRST BANDICOOT CHURCHES",
    ],
  );
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

test("of several parts of words that hundreds of charities have, pages list each of them once", async (t) => {
  const charities = await readAll(t, "colon uokk");
  t.is(charities.length, MANY);
  t.is(new Set(charities.map(({ ein }) => ein)).size, MANY);
});

test("of several words that hundreds of charities have, the last page has the rest of them", async (t) => {
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
