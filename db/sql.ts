import { createSqlTag } from "slonik";
import { z } from "zod";

/** The row schema of a prepared statement that returns no rows. */
export const nothing = z.strictObject({});

export const sql = createSqlTag({
  typeAliases: { void: nothing },
});
