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
  const readCell = () =>
    db.oneFirst(sql.type(cellRow)`
      SELECT cell FROM deployment
    `);
  if ((await readCell()) === cell) {
    return;
  }
  await db.query(sql.typeAlias("void")`
    UPDATE deployment SET cell = ${cell} WHERE NOT EXISTS (SELECT FROM account)
  `);
  const recorded = await readCell();
  if (recorded !== cell) {
    const [owner, advice] =
      recorded === null
        ? ["the default cell's", "Unset CELL"]
        : [`that of the cell ${recorded}`, `Set CELL=${recorded}`];
    throw new StartupError(
      `CELL is ${cell}, but the database is ${owner} and has accounts. ${advice}, or use another database.`,
    );
  }
};
