import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { StartupError } from "../runtime/errors.rules.ts";
import { sql } from "./sql.ts";

const cellRow = z.strictObject({ cell: z.string().nullable() });

/**
 * Names the cell of a database that has no accounts yet.
 * @throws StartupError if the database is another cell's: its keys, public paths and meters keep that cell's name
 */
export const requireCell = async (db: CommonQueryMethods, cell: string): Promise<void> => {
  const recorded = await db.oneFirst(sql.type(cellRow)`
    WITH named AS (
      UPDATE deployment
      SET cell = ${cell}
      WHERE cell IS DISTINCT FROM ${cell} AND NOT EXISTS (SELECT FROM account)
      RETURNING cell
    )
    SELECT coalesce((SELECT cell FROM named), cell) AS cell
    FROM deployment
  `);
  if (recorded !== cell) {
    throw new StartupError(
      `CELL is ${cell}, but the database is ${recorded === null ? "the default cell's" : `that of the cell ${recorded}`} and has accounts. ${recorded === null ? "Unset CELL" : `Set CELL=${recorded}`}, or use another database.`,
    );
  }
};
