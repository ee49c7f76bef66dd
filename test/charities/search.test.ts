import { z } from "zod";
import type { ExecutionContext } from "ava";
import { upsertCharities } from "../../db/charities/charityImports.ts";
import { updateAccount } from "../../db/accounts/accounts.ts";
import type { MasterFileRecord } from "../../domain/charities/businessMasterFile.ts";
import type { DatabaseContext } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { startDonationApi } from "./donationSetup.ts";

const test = testWithDatabase();

const RECORD: MasterFileRecord = {
  ein: "",
  name: "",
  sortName: "",
  city: "SPRINGFIELD",
  state: "VT",
  ntee: "K31",
  affiliation: "3",
  subsection: "03",
  deductibility: "1",
  incomeCode: 0,
};

/** Made-up charities among the real ones of the starter catalogue. */
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
  const records = CHARITIES.map((charity) => Object.assign({}, RECORD, charity));
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

test("a charity is shown with all its fields", async (t) => {
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

test("the starter catalogue is there at once", async (t) => {
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
test("every word in any order, the closest first", finds, { name: "bank zebra" }, FOOD_BANKS);
test("parts of words", finds, { name: "zebr foo" }, FOOD_BANKS);
test("words with typos", finds, { name: "zebrra fod bank" }, FOOD_BANKS);
test("the sort name", finds, { name: "the pantry" }, ["ZEBRA FOOD BANK"]);
test("apostrophes, dots and case aside", finds, { name: "St. Mary's zebra" }, [
  "FRIENDS OF ST MARYS ZEBRA SCHOOL",
]);
test("accents aside", finds, { name: "zébra pantry" }, ["ZEBRA FOOD BANK"]);
test("words of one letter", finds, { name: "a b c zebra" }, ["A B C ZEBRA CLINIC"]);
test("a group's member by its group's name", finds, { name: "lions zebra" }, [
  "LIONS OF ZEBRA LODGE (CHAPTER 12)",
]);
test("an EIN with its dash", finds, { ein: "53-0196605" }, ["American Red Cross"]);
test("an EIN without its dash", finds, { ein: "530196605" }, ["American Red Cross"]);
test("an EIN of any prefix", finds, { ein: "97-0000003" }, ["PAGED QUAGGA TROOP"]);
test("an EIN that is given as a name", finds, { name: "53-0196605" }, ["American Red Cross"]);
test("an EIN and a name that fit", finds, { ein: "530196605", name: "red cross" }, [
  "American Red Cross",
]);
test("nothing by an EIN and another's name", finds, { ein: "530196605", name: "zebra" }, []);
test("nothing by letters that the catalogue does not know", finds, { name: "日本赤十字" }, []);
test("nothing by a short word beside such letters", finds, { name: "日本赤十字 a" }, []);
test("nothing by what is no EIN", finds, { ein: "53-01966" }, []);
test("nothing by an unknown EIN", finds, { ein: "000000000" }, []);
test("nothing like gibberish", finds, { name: "xqzwv kkjjq" }, []);
test("no club to which gifts are not deductible", finds, { name: "zebra social club" }, []);
test("nobody by their EIN who may not be given to", finds, { ein: "690000006" }, []);
test("nothing odd by the pattern's own signs", finds, { name: "%_%zebra\\ pantry" }, [
  "ZEBRA FOOD BANK",
]);

test("pages hold every charity once and the totals are exact", async (t) => {
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

const refuses = test.macro({
  exec: async (t, query: Record<string, string>, message: RegExp) => {
    const { get } = await stage(t);
    const { status, body } = await get(query);
    t.is(status, 400);
    t.regex(String(body["error"]), message);
  },
  title: (given = "") => `${given} is a 400`,
});

test("a name of two letters", refuses, { name: "ze" }, /at least 3/u);
test("a name of two letters of any script", refuses, { name: "日本" }, /at least 3/u);
test("two letters with a space between", refuses, { name: "z e" }, /at least 3/u);
test("a name of signs", refuses, { name: "!!!!" }, /at least 3/u);
test("a page size of 21", refuses, { page_size: "21" }, /^page_size: .*20/u);
test("a page size of 0", refuses, { page_size: "0" }, /^page_size: /u);
test("page 0", refuses, { page: "0" }, /^page: /u);
test("half a page", refuses, { page: "1.5" }, /^page: /u);
test("an unknown parameter", refuses, { q: "red" }, /q: unknown parameter/u);

test("a provider without a key in the settings is a 500 that says no more", async (t) => {
  const { get, accountId } = await stage(t);
  await updateAccount(t.context.db, accountId, { charityProvider: "pledge" });
  const { status, body } = await get({ name: "red cross" });
  t.is(status, 500);
  t.deepEqual(body, { error: "charity search failed" });
});
