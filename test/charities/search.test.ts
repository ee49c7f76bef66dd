import { z } from "zod";
import type { ExecutionContext } from "ava";
import { upsertCharities } from "../../modules/charities/charityImports.sql.ts";
import { updateAccount } from "../../modules/accounts/accounts.sql.ts";
import type { MasterFileRecord } from "../../modules/charities/businessMasterFile.rules.ts";
import { monogramUrl } from "../../api/endpoints/charities.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createCharities } from "../../modules/charities/createCharities.ts";
import { startApiOf } from "../api/startStandaloneApi.ts";
import { unreachableTemporal } from "../support/temporalOnDemand.ts";
import type { DatabaseContext } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { CHARITY_RECORD } from "./charityRecord.ts";
import { settingsOf, startDonationApi } from "./donations/donationSetup.ts";
import { startProviderDouble } from "./startProviderDouble.ts";

const test = testWithDatabase();

const HOSTILE_NAME = '"><SCRIPT>ALERT(1)</SCRIPT>';

/** Invented charities, in addition to the real ones that the catalogue starts with. */
const CHARITIES: readonly Partial<MasterFileRecord>[] = [
  { ein: "690000001", name: "ZEBRA FOOD BANK OF SPRINGFIELD" },
  { ein: "690000002", name: "ZEBRA FOOD BANK", sortName: "THE PANTRY" },
  { ein: "690000003", name: "FRIENDS OF ST MARYS ZEBRA SCHOOL" },
  { ein: "690000004", name: "LIONS OF ZEBRA LODGE", affiliation: "9", sortName: "CHAPTER 12" },
  { ein: "690000005", name: "ZEBRA SOCIAL CLUB", subsection: "07", deductibility: "2" },
  { ein: "690000006", name: "ZEBRA FOREIGN TRUST", deductibility: "4" },
  { ein: "690000007", name: "A B C ZEBRA CLINIC" },
  { ein: "060000001", name: "LEADING WOMBAT" },
  { ein: "690000008", name: HOSTILE_NAME },
  ...Array.from({ length: 45 }, (_, index) => ({
    ein: String(970_000_000 + index),
    name: "PAGED QUAGGA TROOP",
  })),
];

test.before(async (t) => {
  const records = CHARITIES.map((charity) => Object.assign({}, CHARITY_RECORD, charity));
  await t.context.db.transaction((transaction) =>
    upsertCharities(transaction, records, "2026-04-13"),
  );
});

const PUBLIC_BASE_URL = "https://impact.example";

const charities = z.array(
  z.looseObject({
    nonprofit_id: z.string(),
    name: z.string(),
    ein: z.string(),
    icon_url: z.url(),
  }),
);

const stage = async (t: ExecutionContext<DatabaseContext>) => {
  const {
    call,
    test: key,
    accountId,
  } = await startDonationApi(t, {
    publicBaseUrl: PUBLIC_BASE_URL,
  });
  const get = (query: Record<string, string>) =>
    call("GET", `/charities/search?${new URLSearchParams(query).toString()}`, { key });
  return {
    accountId,
    get,
    search: async (query: Record<string, string>) => {
      const { status, body } = await get(query);
      t.is(status, 200);
      const found = charities.parse(body["charities"]);
      return { body, found, names: found.map(({ name }) => name) };
    },
  };
};

test("a search returns all fields of a charity", async (t) => {
  const { search } = await stage(t);
  const { body } = await search({ name: "zebra pantry" });
  t.deepEqual(body, {
    total_items: 1,
    total_pages: 1,
    charities: [
      {
        nonprofit_id: "irs_690000002",
        name: "ZEBRA FOOD BANK",
        ein: "69-0000002",
        description: "Food, agriculture and nutrition, SPRINGFIELD, VT",
        website: "",
        icon_url: "https://impact.example/media/monograms/ZF-291.svg",
      },
    ],
  });
});

test("a charity without an icon gets a monogram, a picture without scripts that may be kept for ever", async (t) => {
  const { call, url, apiKeyTest: key } = await startApiOf(t, { openTemporal: unreachableTemporal });
  const { body } = await call("GET", "/charities/search?name=script", { key });
  t.like(charities.parse(body["charities"]), [{ name: HOSTILE_NAME }]);
  const [hostile] = charities.parse(body["charities"]);
  t.regex(hostile?.icon_url ?? "", new RegExp(`^${url}/media/monograms/SA-\\d+\\.svg$`, "u"));
  const again = await call("GET", "/charities/search?name=script", { key });
  t.deepEqual(again.body, body);

  const picture = await fetch(hostile?.icon_url ?? "");
  t.is(picture.status, 200);
  t.is(picture.headers.get("Content-Type"), "image/svg+xml");
  t.is(picture.headers.get("Cache-Control"), "public, max-age=31536000, immutable");
  t.regex(picture.headers.get("Content-Security-Policy") ?? "", /^default-src 'none'.*; sandbox$/u);
  t.regex(await picture.text(), /^<svg [^>]+><rect [^>]+><text [^>]+>SA<\/text><\/svg>$/u);
  for (const made of ["%3Cscript%3E-1", "ABCDE-1", "A", "A-1000", "A%22-1"]) {
    t.is((await fetch(`${url}/media/monograms/${made}.svg`)).status, 404, made);
  }
});

test("the monogram of a name in another script has its first letter", async (t) => {
  const { url } = await startApiOf(t, { openTemporal: unreachableTemporal });
  const picture = await fetch(monogramUrl(url, "日本赤十字"));
  t.is(picture.status, 200);
  t.regex(await picture.text(), />日<\/text>/u);
  t.is((await fetch(monogramUrl(url, "!!!"))).status, 200);
});

test("the icon of a remote provider is passed on, and a charity without one gets a monogram", async (t) => {
  const double = await startProviderDouble();
  t.teardown(double.close);
  const { db } = t.context;
  const hit = { description: "", ein: null, websiteUrl: "", matchedTerms: [] };
  double.responses.set("/everyorg/search/tree", {
    nonprofits: [
      {
        ...hit,
        name: "Tree",
        profileUrl: "https://x/tree",
        logoUrl: "https://icons.example/1.png",
      },
      { ...hit, name: "Treetop Trust", profileUrl: "https://x/treetop", logoUrl: null },
    ],
  });
  const {
    call,
    id,
    apiKeyTest: key,
  } = await startApiOf(t, {
    openTemporal: unreachableTemporal,
    charities: createCharities({ db, clock: systemClock, settings: settingsOf(double) }),
    publicBaseUrl: PUBLIC_BASE_URL,
  });
  await updateAccount(db, id, { charityProvider: "everyorg" });
  const { body } = await call("GET", "/charities/search?name=tree", { key });
  t.deepEqual(
    charities.parse(body["charities"]).map(({ icon_url }) => icon_url),
    ["https://icons.example/1.png", monogramUrl(PUBLIC_BASE_URL, "Treetop Trust")],
  );
});

test("the well-known charities are in the catalogue from the start", async (t) => {
  const { search } = await stage(t);
  const { found, body } = await search({});
  t.is(found.length, 20);
  t.true(Number(body["total_items"]) > 150);
  t.deepEqual((await search({ name: "world wildlife" })).names, ["World Wildlife Fund"]);
});

const finds = test.macro({
  exec: async (t, query: Record<string, string>, names: readonly string[]) => {
    const { search } = await stage(t);
    const { names: found, body } = await search(query);
    t.deepEqual(found, names);
    t.is(body["total_items"], names.length);
  },
  title: (given = "") => `a search finds ${given}`,
});

const FOOD_BANKS = ["ZEBRA FOOD BANK", "ZEBRA FOOD BANK OF SPRINGFIELD"];
test("every word in any order, closest match first", finds, { name: "bank zebra" }, FOOD_BANKS);
test("parts of words", finds, { name: "zebr foo" }, FOOD_BANKS);
test("words with typos", finds, { name: "zebrra fod bank" }, FOOD_BANKS);
test("the sort name", finds, { name: "the pantry" }, ["ZEBRA FOOD BANK"]);
test("names whatever their apostrophes, dots and case", finds, { name: "St. Mary's zebra" }, [
  "FRIENDS OF ST MARYS ZEBRA SCHOOL",
]);
test("names whatever their accents", finds, { name: "zébra pantry" }, ["ZEBRA FOOD BANK"]);
test("words of one letter", finds, { name: "a b c zebra" }, ["A B C ZEBRA CLINIC"]);
test("a subordinate by the name of its group", finds, { name: "lions zebra" }, [
  "LIONS OF ZEBRA LODGE (CHAPTER 12)",
]);
test("an EIN of any prefix", finds, { ein: "97-0000003" }, ["PAGED QUAGGA TROOP"]);
test("an EIN with a typographic hyphen", finds, { ein: "53\u20110196605" }, ["American Red Cross"]);
test("an EIN with a minus sign", finds, { ein: "53\u22120196605" }, ["American Red Cross"]);
test("an EIN with spaces", finds, { ein: " 53 0196605 " }, ["American Red Cross"]);
test("an EIN that is named one", finds, { ein: "EIN: 53-0196605" }, ["American Red Cross"]);
test("an EIN whose leading zero is lost", finds, { ein: "60000001" }, ["LEADING WOMBAT"]);
test("such an EIN with its dash", finds, { ein: "6-0000001" }, ["LEADING WOMBAT"]);
test("such an EIN in the parameter name", finds, { name: "60000001" }, ["LEADING WOMBAT"]);
test("an EIN in the parameter name", finds, { name: "53-0196605" }, ["American Red Cross"]);
test("a charity by an EIN and a name that match", finds, { ein: "530196605", name: "red cross" }, [
  "American Red Cross",
]);
test(
  "nothing for an EIN and the name of another charity",
  finds,
  { ein: "530196605", name: "zebra" },
  [],
);
test("nothing for letters that the catalogue does not contain", finds, { name: "日本赤十字" }, []);
test("nothing for such letters with a short word", finds, { name: "日本赤十字 a" }, []);
test("nothing for two letters that begin no word", finds, { name: "zq" }, []);
test("two letters that begin a word, the names that begin with them first", finds, { name: "ze" }, [
  "Zero to Three",
  ...FOOD_BANKS,
  "A B C ZEBRA CLINIC",
  "LIONS OF ZEBRA LODGE (CHAPTER 12)",
  "FRIENDS OF ST MARYS ZEBRA SCHOOL",
]);
test("a letter that begins a word, with another word", finds, { name: "z pan" }, [
  "ZEBRA FOOD BANK",
]);
test("a word and the beginning of another", finds, { name: "red cr" }, ["American Red Cross"]);
test("the beginning of a word and another word", finds, { name: "r cross" }, [
  "American Red Cross",
]);
test("nothing for two letters of another script", finds, { name: "日本" }, []);
test("nothing for a letter of another script with a word", finds, { name: "日 b" }, []);
test("nothing for punctuation", finds, { name: "!!!!" }, []);
test("nothing for an unknown EIN", finds, { ein: "000000000" }, []);
test("nothing for gibberish", finds, { name: "xqzwv kkjjq" }, []);
test("no club, because gifts to it are not deductible", finds, { name: "zebra social club" }, []);
test("no ineligible charity by its EIN", finds, { ein: "690000006" }, []);
test("names, not patterns, if wildcards are given", finds, { name: "%_%zebra\\ pantry" }, [
  "ZEBRA FOOD BANK",
]);

test("pages list every charity once, with exact totals", async (t) => {
  const { search } = await stage(t);
  const pages = await Promise.all(
    ["1", "2", "3", "4"].map((page) => search({ name: "quagga", page, page_size: "20" })),
  );
  t.deepEqual(
    pages.map(({ found }) => found.length),
    [20, 20, 5, 0],
  );
  t.is((await search({ name: "quagga", page_size: "21" })).found.length, 20);
  t.is(new Set(pages.flatMap(({ found }) => found.map(({ ein }) => ein))).size, 45);
  t.true(pages.every(({ body }) => body["total_items"] === 45 && body["total_pages"] === 3));
});

const rejects = test.macro({
  exec: async (t, query: Record<string, string>, message: RegExp) => {
    const { get } = await stage(t);
    const { status, body } = await get(query);
    t.is(status, 400);
    t.regex(String(body["error"]), message);
  },
  title: (given = "") => `${given} is a 400`,
});

test("a page size of 0", rejects, { page_size: "0" }, /^page_size: /u);
test("page 0", rejects, { page: "0" }, /^page: /u);
const EIN_MESSAGE = /^ein: must be nine digits such as 53-0196605$/u;
test("an EIN of seven digits", rejects, { ein: "53-01966" }, EIN_MESSAGE);
test("an EIN of ten digits", rejects, { ein: "53-01966055" }, EIN_MESSAGE);
test("an EIN with letters", rejects, { ein: "53-O196605" }, EIN_MESSAGE);
test("half a page", rejects, { page: "1.5" }, /^page: /u);

test("a provider without an API key in the settings is a 500 without details", async (t) => {
  const { get, accountId } = await stage(t);
  await updateAccount(t.context.db, accountId, { charityProvider: "pledge" });
  const { status, body } = await get({ name: "red cross" });
  t.is(status, 500);
  t.deepEqual(body, { error: "charity search failed" });
});
