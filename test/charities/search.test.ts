import { z } from "zod";
import { updateAccount } from "../../modules/accounts/accounts.sql.ts";
import { upsertCharities } from "../../modules/charities/catalogue.sql.ts";
import type { MasterFileRecord } from "../../modules/charities/businessMasterFile.rules.ts";
import { createCharities } from "../../modules/charities/createCharities.ts";
import { systemClock } from "../../runtime/clock.ts";
import { startApiOf } from "../api/startStandaloneApi.ts";
import type { DatabaseTest } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { unreachableTemporal } from "../support/temporalOnDemand.ts";
import { CHARITY_RECORD } from "./catalogueScene.ts";
import { configOf, startDonationApi } from "./donations/donationSetup.ts";
import { startProviderDouble } from "./startProviderDouble.ts";

const test = testWithDatabase();

const HOSTILE_NAME = '"><SCRIPT>ALERT(1)</SCRIPT>';
const QUAGGAS = 45;

/** Invented charities, in addition to the real ones that the catalogue starts with. */
const CHARITIES: readonly Partial<MasterFileRecord>[] = [
  { ein: "690000001", name: "ZEBRA FOOD BANK OF SPRINGFIELD" },
  { ein: "690000002", name: "ZEBRA FOOD BANK", sort_name: "THE PANTRY" },
  { ein: "690000003", name: "FRIENDS OF ST MARYS ZEBRA SCHOOL" },
  { ein: "690000004", name: "LIONS OF ZEBRA LODGE", affiliation: "9", sort_name: "CHAPTER 12" },
  { ein: "690000005", name: "ZEBRA SOCIAL CLUB", subsection: "07", deductibility: "2" },
  { ein: "690000006", name: "ZEBRA FOREIGN TRUST", deductibility: "4" },
  { ein: "690000007", name: "A B C ZEBRA CLINIC" },
  { ein: "060000001", name: "LEADING WOMBAT" },
  { ein: "690000008", name: HOSTILE_NAME },
  ...Array.from({ length: QUAGGAS }, (_, index) => ({
    ein: String(970_000_000 + index),
    name: `THE ${"LONG ".repeat(index % 3)}QUAGGA TROOP`,
    income_code: index % 10,
  })),
  { ein: "961000001", name: "QUAGGASAURUS CLUB", income_code: 9 },
  { ein: "961000002", name: "NUMBAT HUMANE SOCIETY" },
  { ein: "961000003", name: "NUMBATS AND FRIENDS OF THE SOCIETY", income_code: 9 },
  { ein: "961000004", name: "FRIENDS OF THE NUMBAT SOCIETY", income_code: 3 },
  { ein: "961000005", name: "MOUNT ZION FIRST BANDICOOT CHURCH", income_code: 9 },
  { ein: "961000006", name: "FIRST BANDICOOT CHURCHES", income_code: 9 },
  { ein: "961000007", name: "FIRST BANDICOOT CHURCH OF NOWHERE" },
  { ein: "961000008", name: "FIRST BANDICOOT CHURCH" },
  { ein: "961000009", name: "OUR FIRST BANDICOOT CHURCHES" },
  { ein: "521693387", name: "QUAGGA WILDLIFE FUND" },
];

const recordOf = (charity: Partial<MasterFileRecord>): MasterFileRecord => ({
  ...CHARITY_RECORD,
  ...charity,
});

test.before((t) => upsertCharities(t.context.db, CHARITIES.map(recordOf), "2026-04-13"));

const PUBLIC_BASE_URL = "https://impact.example";

const charities = z.array(
  z.looseObject({ name: z.string(), ein: z.string(), icon_url: z.string() }),
);

const stage = async (t: DatabaseTest) => {
  const api = await startDonationApi(t, { publicBaseUrl: PUBLIC_BASE_URL });
  const get = (query: Record<string, string>) =>
    api.call("GET", `/charities/search?${new URLSearchParams(query).toString()}`, {
      key: api.test,
    });
  const search = async (query: Record<string, string>) => {
    const { status, body } = await get(query);
    t.is(status, 200, JSON.stringify(query));
    const found = charities.parse(body["charities"]);
    return { body, found, names: found.map(({ name }) => name) };
  };
  return { ...api, get, search };
};

test("a search returns all fields of a charity", async (t) => {
  const { search } = await stage(t);
  t.deepEqual((await search({ name: "zebra pantry" })).body, {
    total_items: 1,
    total_pages: 1,
    charities: [
      {
        nonprofit_id: "irs_690000002",
        name: "ZEBRA FOOD BANK",
        ein: "69-0000002",
        description: "Food, agriculture and nutrition, SPRINGFIELD, VT",
        website: "",
        icon_url: "https://impact.example/media/charity.svg",
      },
    ],
  });
});

test("the well-known charities are in the catalogue from the start", async (t) => {
  const { search } = await stage(t);
  const { found, body } = await search({});
  t.is(found.length, 20);
  t.true(Number(body["total_items"]) > 150);
  t.deepEqual((await search({ name: "one tree planted" })).names, ["One Tree Planted"]);
});

const FOOD_BANKS = ["ZEBRA FOOD BANK", "ZEBRA FOOD BANK OF SPRINGFIELD"];
const RED_CROSS = ["American Red Cross"];
const HUMANE = ["NUMBAT HUMANE SOCIETY"];

/** What is searched for, and the names that are found, the closest first. */
const FOUND: readonly (readonly [string, Record<string, string>, readonly string[]])[] = [
  ["every word in any order", { name: "bank zebra" }, FOOD_BANKS],
  ["beginnings of words", { name: "zebr foo" }, FOOD_BANKS],
  ["the sort name", { name: "the pantry" }, ["ZEBRA FOOD BANK"]],
  [
    "names with or without apostrophes, dots and capitals",
    { name: "St. Mary's zebra" },
    ["FRIENDS OF ST MARYS ZEBRA SCHOOL"],
  ],
  ["names without their accents", { name: "zébra pantry" }, ["ZEBRA FOOD BANK"]],
  ["words of one letter", { name: "a b c zebra" }, ["A B C ZEBRA CLINIC"]],
  [
    "a subordinate by the name of its group",
    { name: "lions zebra" },
    ["LIONS OF ZEBRA LODGE (CHAPTER 12)"],
  ],
  [
    "two letters that begin a word, the names that begin with them first",
    { name: "ze" },
    [
      "Zero to Three",
      ...FOOD_BANKS,
      "A B C ZEBRA CLINIC",
      "LIONS OF ZEBRA LODGE (CHAPTER 12)",
      "FRIENDS OF ST MARYS ZEBRA SCHOOL",
    ],
  ],
  ["a letter that begins a word, with another word", { name: "z pan" }, ["ZEBRA FOOD BANK"]],
  ["a word and the beginning of another", { name: "red cr" }, RED_CROSS],
  ["the beginning of a word and another word", { name: "r cross" }, RED_CROSS],
  ["names, not patterns, for wildcards", { name: "%_%zebra\\ pantry" }, ["ZEBRA FOOD BANK"]],
  [
    "the exact name, names that begin with the search, those with all words, then longer words",
    { name: "first bandicoot church" },
    [
      "FIRST BANDICOOT CHURCH",
      "FIRST BANDICOOT CHURCH OF NOWHERE",
      "MOUNT ZION FIRST BANDICOOT CHURCH",
      "FIRST BANDICOOT CHURCHES",
      "OUR FIRST BANDICOOT CHURCHES",
    ],
  ],
  [
    "whole words before parts of words",
    { name: "numbat society" },
    [...HUMANE, "FRIENDS OF THE NUMBAT SOCIETY", "NUMBATS AND FRIENDS OF THE SOCIETY"],
  ],
  [
    "a repeated word once",
    { name: "friends of the numbat society the of friends society numbat" },
    ["FRIENDS OF THE NUMBAT SOCIETY", "NUMBATS AND FRIENDS OF THE SOCIETY"],
  ],
  ["words with typos", { name: "zebrra fod bank" }, FOOD_BANKS],
  ["a missing letter", { name: "numbat humane socety" }, HUMANE],
  ["an added letter", { name: "nummbat humane society" }, HUMANE],
  ["a wrong letter", { name: "numbat humane sociaty" }, HUMANE],
  ["two letters that are exchanged", { name: "nubmat humane society" }, HUMANE],
  ["a typo in each word", { name: "numbt humnae sociey" }, HUMANE],
  ["two words without the space between them", { name: "humanesociety numbat" }, HUMANE],
  ["a word too many, if little is lost", { name: "numbat humane society xqz" }, HUMANE],
  ["nothing if much of the search is lost", { name: "numbat xqzwvjkq" }, []],
  ["an EIN of any prefix", { ein: "06-0000001" }, ["LEADING WOMBAT"]],
  ["an EIN whose leading zero is lost", { ein: "60000001" }, ["LEADING WOMBAT"]],
  ["such an EIN in the parameter name", { name: "60000001" }, ["LEADING WOMBAT"]],
  ["an EIN in the parameter name", { name: "53-0196605" }, RED_CROSS],
  ["an EIN and a name that match", { ein: "530196605", name: "red cross" }, RED_CROSS],
  ["nothing for an EIN and another name", { ein: "530196605", name: "zebra" }, []],
  ["nothing for letters that the catalogue does not contain", { name: "日本赤十字" }, []],
  ["nothing for such letters with a word", { name: "日 b" }, []],
  ["nothing for two letters that begin no word", { name: "zq" }, []],
  ["nothing for punctuation", { name: "!!!!" }, []],
  ["nothing for an unknown EIN", { ein: "000000000" }, []],
  ["nothing for gibberish", { name: "xqzwv kkjjq" }, []],
  ["no club, because gifts to it are not deductible", { name: "zebra social club" }, []],
  ["no ineligible charity by its EIN", { ein: "690000006" }, []],
];

test("a search finds names by words, beginnings, similar words and EINs", async (t) => {
  const { search } = await stage(t);
  for (const [title, query, names] of FOUND) {
    const { names: found, body } = await search(query);
    t.deepEqual(found, names, title);
    t.is(body["total_items"], names.length, title);
  }
});

test("of a word that many have, pages list each charity once: well-known, short and large ones first", async (t) => {
  const { search } = await stage(t);
  const pages = [];
  for (const page of ["1", "2", "3", "4"]) {
    pages.push(await search({ name: "quagga", page, page_size: "20" }));
  }
  const total = QUAGGAS + 2;
  const lengths = pages.map(({ found }) => found.length);
  t.deepEqual(lengths, [20, 20, total - 40, 0]);
  for (const { body } of pages) {
    t.like(body, { total_items: total, total_pages: 3 });
  }
  const found = pages.flatMap((page) => page.found);
  t.is(new Set(found.map(({ ein }) => ein)).size, total);
  t.is(found[0]?.name, "World Wildlife Fund");
  const longer = "it has a longer word that begins with the given one";
  t.is(found.at(-1)?.name, "QUAGGASAURUS CLUB", longer);
  const shortest = found.filter(({ name }) => name === "THE QUAGGA TROOP");
  t.deepEqual(found.slice(1, 16), shortest);
  const incomes = shortest.map(({ ein }) => Number(ein.at(-1)));
  t.deepEqual(
    incomes,
    incomes.toSorted((one, other) => other - one),
  );
  t.is((await search({ name: "quagga", page_size: "21" })).found.length, 20);
});

test("a charity is found under its new name when a newer extract renames it", async (t) => {
  const { search } = await stage(t);
  const rename = (name: string, extractedOn: string) =>
    upsertCharities(t.context.db, [recordOf({ ein: "962000001", name })], extractedOn);
  await rename("BETTONG RESCUE", "2026-04-13");
  t.is((await search({ name: "bettnog" })).found.length, 1);
  await rename("WALLAROO RESCUE", "2026-05-11");
  t.is((await search({ name: "walaroo" })).found.length, 1);
  t.is((await search({ name: "bettong" })).found.length, 0);
});

test("a charity without an icon gets a general one, a picture without scripts", async (t) => {
  const { call, url, apiKeyTest: key } = await startApiOf(t, { openTemporal: unreachableTemporal });
  const { body } = await call("GET", "/charities/search?name=script", { key });
  const [hostile] = charities.parse(body["charities"]);
  t.like(hostile, { name: HOSTILE_NAME, icon_url: `${url}/media/charity.svg` });

  const picture = await fetch(hostile?.icon_url ?? "");
  t.is(picture.status, 200);
  t.is(picture.headers.get("Content-Type"), "image/svg+xml");
  t.regex(picture.headers.get("Content-Security-Policy") ?? "", /^default-src 'none'.*; sandbox$/u);
});

test("the icon of a remote provider is passed on, and a charity without one gets the general one", async (t) => {
  const double = await startProviderDouble(t);
  const { db } = t.context;
  const icon = "https://icons.example/1.png";
  double.responses.set("/everyorg/search/tree", {
    nonprofits: [
      { name: "Tree", profileUrl: "https://x/tree", logoUrl: icon },
      { name: "Treetop Trust", profileUrl: "https://x/treetop", logoUrl: null },
    ],
  });
  const api = await startApiOf(t, {
    openTemporal: unreachableTemporal,
    charities: createCharities({ db, clock: systemClock, config: configOf(double) }),
    publicBaseUrl: PUBLIC_BASE_URL,
  });
  await updateAccount(db, api.id, { charityProvider: "everyorg" });
  const { body } = await api.call("GET", "/charities/search?name=tree", { key: api.apiKeyTest });
  const icons = charities.parse(body["charities"]).map(({ icon_url }) => icon_url);
  t.deepEqual(icons, [icon, `${PUBLIC_BASE_URL}/media/charity.svg`]);
});
