import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";

/** Counts the rows and pages of tables that work reads, on the only connection of a pool. */
export const countReads = async (
  db: CommonQueryMethods,
  tables: readonly string[],
  work: () => Promise<unknown>,
): Promise<{ readonly rows: number; readonly pages: number }> => {
  const read = async () => {
    await db.query(sql.typeAlias("void")`SELECT FROM pg_stat_force_next_flush()`);
    return db.one(sql.type(z.strictObject({ rows: z.int(), pages: z.int() }))`
      SELECT
        sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer AS rows,
        sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0))::integer AS pages
      FROM pg_stat_user_tables JOIN pg_statio_user_tables USING (relid)
      WHERE pg_stat_user_tables.relname = ANY(${sql.array([...tables], "text")})
    `);
  };
  const before = await read();
  await work();
  const after = await read();
  return { rows: after.rows - before.rows, pages: after.pages - before.pages };
};
