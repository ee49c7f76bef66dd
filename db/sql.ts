import { createSqlTag } from "slonik";
import { z } from "zod";

/** The schema of a prepared statement without rows. */
export const nothing = z.strictObject({});

export const sql = createSqlTag({
  typeAliases: { void: nothing },
});
