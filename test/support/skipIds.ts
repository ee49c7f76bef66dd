import type { CommonQueryMethods } from "slonik";
import { sql } from "../../db/sql.ts";

/** Makes the next ids of a table longer than three digits, so that a printed one shows whether it can be given to a command. */
export const skipIds = async (owner: CommonQueryMethods, table: string): Promise<void> => {
  await owner.query(sql.typeAlias("void")`
    ALTER TABLE ${sql.identifier([table])} ALTER COLUMN id RESTART WITH 1001
  `);
};
