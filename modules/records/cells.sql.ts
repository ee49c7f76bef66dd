import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";

const cellRow = z.strictObject({ cell: z.string().nullable() });

/** Returns the name of this cell; null for the default one. */
export const readCell = (db: CommonQueryMethods) =>
  db.oneFirst(sql.type(cellRow)`
    SELECT cell FROM deployment
  `);

/** A name as public paths have it: in another cell than the default one, after the cell's name. */
export const withCell = (name: string) =>
  sql.fragment`concat_ws('_', (SELECT cell FROM deployment), ${name}::text)`;
