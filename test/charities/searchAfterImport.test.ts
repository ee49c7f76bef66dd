import { upsertCharities } from "../../modules/charities/charityImports.sql.ts";
import { sql } from "../../db/sql.ts";
import { createCatalogue } from "../../modules/charities/createCatalogue.ts";
import { createPageCounter, openSinglePools } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { CHARITY_RECORD } from "./charityRecord.ts";

const test = testWithDatabase();

/** Of as many, PostgreSQL would leave most in the lists of pending changes of the indexes, if these had its default length. */
const IMPORTED = 20_000;
/** The maximum length of such a list, of 1 MiB. */
const PENDING_PAGES = 128;

/** How many times a search reads the list of an index. */
const SEARCHES = { "american red cross": 2, "american forrests": 4 } as const;

test("right after an import, a search reads little more than after a vacuum", async (t) => {
  const { filler, db } = await openSinglePools(t);
  const records = Array.from({ length: IMPORTED }, (_, index) => ({
    ...CHARITY_RECORD,
    ein: String(980_000_000 + index),
    name: `${index.toString(26)} NUMBAT FRIENDS OF THE ${(index * 7919).toString(26)} COLONY`,
  }));
  await filler.transaction((transaction) => upsertCharities(transaction, records, "2026-04-13"));
  const catalogue = createCatalogue({ db, searches: db });
  const search = (name: string) => () =>
    catalogue.search({ name, ein: null, page: 1, pageSize: 20 }, new AbortController().signal);
  /** Counts the pages of a search that is repeated, because the first one also reads the catalogue of indexes. */
  const countPages = async (name: string): Promise<number> => {
    await search(name)();
    const count = await createPageCounter(filler, db, ["charity"]);
    return count(search(name));
  };
  const countAll = async (): Promise<readonly number[]> => {
    const pages: number[] = [];
    for (const name of Object.keys(SEARCHES)) {
      pages.push(await countPages(name));
    }
    return pages;
  };

  const imported = await countAll();
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) charity`);
  const vacuumed = await countAll();

  for (const [index, reads] of Object.values(SEARCHES).entries()) {
    const more = (imported[index] ?? 0) - (vacuumed[index] ?? 0);
    t.true(more <= reads * PENDING_PAGES, `${more} pages more`);
  }
});
