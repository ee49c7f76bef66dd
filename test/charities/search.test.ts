import { z } from "zod";
import type { ExecutionContext } from "ava";
import { upsertCharities } from "../../db/charities/charityImports.ts";
import { updateAccount } from "../../db/accounts/accounts.ts";
import type { MasterFileRecord } from "../../domain/charities/businessMasterFile.ts";
import type { DatabaseContext } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { CHARITY_RECORD } from "./charityRecord.ts";
import { startDonationApi } from "./donations/donationSetup.ts";

const test = testWithDatabase();

/** Invented charities, in addition to the real ones that the catalogue starts with. */
const CHARITIES: readonly Partial<MasterFileRecord>[] = [
  { ein: "690000001", name: "ZEBRA FOOD BANK OF SPRINGFIELD" },
  { ein: "690000002", name: "ZEBRA FOOD BANK", sortName: "THE PANTRY" },
  { ein: "690000003", name: "FRIENDS OF ST MARYS ZEBRA SCHOOL" },
  { ein: "690000004", name: "LIONS OF ZEBRA LODGE", affiliation: "9", sortName: "CHAPTER 12" },
  { ein: "690000005", name: "ZEBRA SOCIAL CLUB", subsection: "07", deductibility: "2" },
  { ein: "690000006", name: "ZEBRA FOREIGN TRUST", deductibility: "4" },
  { ein: "690000007", name: "A B C ZEBRA CLINIC" },
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

const charities = z.array(
  z.looseObject({ nonprofit_id: z.string(), name: z.string(), ein: z.string() }),
);

const stage = async (t: ExecutionContext<DatabaseContext>) => {
  const { call, test: key, accountId } = await startDonationApi(t);
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
        icon_url: "",
      },
    ],
  });
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
test("an EIN with its dash", finds, { ein: "53-0196605" }, ["American Red Cross"]);
test("an EIN without its dash", finds, { ein: "530196605" }, ["American Red Cross"]);
test("an EIN of any prefix", finds, { ein: "97-0000003" }, ["PAGED QUAGGA TROOP"]);
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
test("whole words of two letters in all", finds, { name: "b a" }, ["A B C ZEBRA CLINIC"]);
test("nothing for two letters that are not a word", finds, { name: "ze" }, []);
test("nothing for two letters of another script", finds, { name: "日本" }, []);
test("nothing for a letter of another script with a word", finds, { name: "日 b" }, []);
test("nothing for punctuation", finds, { name: "!!!!" }, []);
test("nothing for a malformed EIN", finds, { ein: "53-01966" }, []);
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

test("a page size of 21", rejects, { page_size: "21" }, /^page_size: .*20/u);
test("a page size of 0", rejects, { page_size: "0" }, /^page_size: /u);
test("page 0", rejects, { page: "0" }, /^page: /u);
test("half a page", rejects, { page: "1.5" }, /^page: /u);
test("an unknown parameter", rejects, { q: "red" }, /q: unknown parameter/u);

test("a provider without an API key in the settings is a 500 without details", async (t) => {
  const { get, accountId } = await stage(t);
  await updateAccount(t.context.db, accountId, { charityProvider: "pledge" });
  const { status, body } = await get({ name: "red cross" });
  t.is(status, 500);
  t.deepEqual(body, { error: "charity search failed" });
});
