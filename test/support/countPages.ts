import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import type { DatabaseTest } from "./database.ts";
import { openTestPool } from "./database.ts";

/** Makes a pool of one connection report what it has read. Otherwise it may do so later, while other work is counted. */
const reportPages = async (db: DatabasePool): Promise<void> => {
  await db.query(sql.typeAlias("void")`SELECT FROM pg_stat_force_next_flush()`);
};

/** Keeps the statistics of tables as they are, and other processes from reading them: a test analyzes what they are to know. */
const stopAutovacuum = async (owner: DatabasePool, tables: readonly string[]): Promise<void> => {
  for (const table of tables) {
    await owner.query(sql.typeAlias("void")`
      ALTER TABLE ${sql.identifier([table])} SET (autovacuum_enabled = false)
    `);
  }
  // Autovacuum summarizes new pages of a BRIN index whatever its table's setting is.
  await owner.query(sql.typeAlias("void")`
    ALTER INDEX meter_event_second SET (autosummarize = off)
  `);
};

/**
 * Opens two pools of one connection each on the test's database until the test ends: the owner's, which fills tables, and that
 * of the role of the programs, whose reads are counted. Autovacuum leaves the tables alone.
 * @param counted those of the tables whose pages are counted, with their indexes
 * @param options of the pool whose reads are counted
 */
export const openPageCount = async (
  t: DatabaseTest,
  tables: readonly string[],
  counted = tables,
  options?: Parameters<typeof openTestPool>[3],
) => {
  const filler = await openTestPool(t, t.context.ownerUrl, 1);
  const db = await openTestPool(t, t.context.databaseUrl, 1, options);
  await stopAutovacuum(filler, tables);
  const readPages = (): Promise<number> =>
    filler.oneFirst(sql.type(z.strictObject({ pages: z.int() }))`
      SELECT sum(
        heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit, 0) + coalesce(idx_blks_read, 0)
      )::integer AS pages
      FROM pg_statio_user_tables
      WHERE relname = ANY(${sql.array([...counted], "text")})
    `);
  /**
   * Counts the pages that work reads, including what planning reads. No other connection may have used the tables. It throws
   * if it has counted none, because a test that allows few pages would pass.
   */
  const countPages = async (work: (db: DatabasePool) => Promise<unknown>): Promise<number> => {
    // The filler may have vacuumed the tables since the last call.
    await reportPages(filler);
    await reportPages(db);
    const before = await readPages();
    await work(db);
    await reportPages(db);
    const difference = (await readPages()) - before;
    if (difference === 0) {
      throw new Error("The work has read no page of the tables, or its reads were not reported.");
    }
    return difference;
  };
  return {
    filler,
    db,
    countPages,
    vacuum: async (): Promise<void> => {
      await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
    },
    /** Fails the test if work reads more pages than this maximum. Returns the result of the work. */
    readAtMost: async <Result>(
      maximum: number,
      work: (db: DatabasePool) => Promise<Result>,
      name = "",
    ): Promise<Result> => {
      const done = Promise.withResolvers<Result>();
      const pages = await countPages(async (single) => done.resolve(await work(single)));
      t.true(pages <= maximum, `${name}: ${pages} pages`);
      return done.promise;
    },
  };
};
