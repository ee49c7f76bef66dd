import type { CommonQueryMethods } from "slonik";
import { sql } from "../../db/sql.ts";

/** Returns whether the built-in ledger has ever had live usage. */
export const hasLiveLedgerUsage = (db: CommonQueryMethods): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT FROM meter_event WHERE mode = 'live' AND processor = 'ledger' AND state = 'delivered'
  `);
