import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";

/**
 * Returns a function that counts the pages of tables and their indexes that work on a connection reads, including what
 * planning reads.
 * @param single a pool of one connection, so that it can report its counters after the work
 */
export const createPageCounter = async (
  owner: DatabasePool,
  single: DatabasePool,
  tables: readonly string[],
): Promise<(work: (db: DatabasePool) => Promise<unknown>) => Promise<number>> => {
  const readPages = (): Promise<number> =>
    owner.oneFirst(sql.type(z.strictObject({ pages: z.int() }))`
      SELECT sum(
        heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit, 0) + coalesce(idx_blks_read, 0)
      )::integer AS pages
      FROM pg_statio_user_tables
      WHERE relname = ANY(${sql.array([...tables], "text")})
    `);
  let last = await readPages();
  return async (work) => {
    await work(single);
    await single.query(sql.typeAlias("void")`SELECT FROM pg_stat_force_next_flush()`);
    const pages = await readPages();
    const difference = pages - last;
    last = pages;
    return difference;
  };
};

/** Keeps the statistics of tables as they are: a test analyzes what they are to know. */
export const stopAutovacuum = async (
  owner: DatabasePool,
  tables: readonly string[],
): Promise<void> => {
  for (const table of tables) {
    await owner.query(sql.typeAlias("void")`
      ALTER TABLE ${sql.identifier([table])} SET (autovacuum_enabled = false)
    `);
  }
};
