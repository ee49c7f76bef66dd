import { upsertCharities } from "../../modules/charities/charityImports.sql.ts";
import { sql } from "../../db/sql.ts";
import { createCatalogue } from "../../modules/charities/createCatalogue.ts";
import { createPageCounter, openSinglePools } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { CHARITY_RECORD, HEADER, lineOf, stageCatalogue } from "./catalogueScene.ts";
import { findCharityRecord } from "../../modules/charities/catalogue.sql.ts";
import { freshEin } from "../support/factories.ts";
import { runBehindLocks } from "../support/lockWaits.ts";

const test = testWithDatabase();

/** Of as many, PostgreSQL would leave most in the lists of pending changes of the indexes, if these had its default length. */
const IMPORTED = 20_000;
/** The maximum length of such a list, of 1 MiB. */
const PENDING_PAGES = 128;

/** How many times a search reads the list of an index. */
const SEARCHES = { "american red cross": 2, "american forrests": 4 } as const;

test.serial("right after an import, a search reads little more than after a vacuum", async (t) => {
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

const recordsOf = (name: string, eins: readonly string[]) =>
  eins.map((ein) => ({ ...CHARITY_RECORD, ein, name }));

test("an older extract that waits for a newer one leaves its charities unchanged", async (t) => {
  const { db } = t.context;
  const [known, added] = [freshEin(), freshEin()];
  const write = (name: string, extractedOn: string, eins: readonly string[]) =>
    db.transaction((transaction) =>
      upsertCharities(transaction, recordsOf(name, eins), extractedOn),
    );
  await write("MARCH", "2026-03-09", [known]);

  await runBehindLocks(
    db,
    (transaction) => upsertCharities(transaction, recordsOf("MAY", [known, added]), "2026-05-11"),
    () => write("APRIL", "2026-04-13", [known, added]),
  );

  for (const ein of [known, added]) {
    t.like(await findCharityRecord(db, ein), { name: "MAY", extractedOn: "2026-05-11" });
  }
});

test.serial(
  "after a complete extract, charities that it lacks are not eligible until an extract lists them again",
  async (t) => {
    const { run, write, load, read } = await stageCatalogue(t);
    const [kept, gone] = [freshEin(), freshEin()];
    const both = [HEADER, lineOf(kept, "KEPT CHARITY"), lineOf(gone, "DISSOLVED CHARITY")].join(
      "\n",
    );
    const april = await write("april.csv", both);
    const may = await write("may.csv", [HEADER, lineOf(kept, "KEPT CHARITY")].join("\n"));
    const bad = await write("bad.csv", [HEADER, lineOf(kept, "KEPT CHARITY"), "12345,"].join("\n"));
    await load(april);
    t.is((await run("import", bad, "--extracted", "2026-05-11", "--complete")).exitCode, 1);
    t.like(await read(gone), { eligible: true }, "a skipped line may be that of a charity");

    const { stderr } = await load(may, "--extracted", "2026-05-11", "--complete");
    t.regex(stderr, /^[\d,]+ charities are missing from the extract and no longer eligible/u);
    t.like(await read(kept), { eligible: true });
    t.like(await read(gone), { eligible: false, listed: false });
    t.regex((await run("search", gone)).stdout, /eligible +no/u);

    const june = await load(april, "--extracted", "2026-06-08");
    t.deepEqual(june.counts, [{ file: "april.csv", read: 2, written: 2, bad: 0 }]);
    t.like(await read(gone), { eligible: true, extractedOn: "2026-06-08" });
  },
);
