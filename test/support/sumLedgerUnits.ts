import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import type { Owner } from "../../modules/records/owner.rules.ts";

/** Returns the units of a stream that the built-in ledger bills. */
export const sumLedgerUnits = (
  db: CommonQueryMethods,
  { accountId, mode, kind }: Owner,
): Promise<number> =>
  db.oneFirst(sql.type(z.strictObject({ units: z.bigint().transform(Number) }))`
    SELECT coalesce(sum(quantity), 0)::bigint AS units
    FROM meter_event
    WHERE account_id = ${accountId}
      AND mode = ${mode}
      AND kind = ${kind}
      AND processor = 'ledger'
      AND state = 'delivered'
  `);
