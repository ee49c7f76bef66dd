import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger, sql } from "../../db/sql.ts";
import { MAXIMUM_QUANTITY } from "./usage.rules.ts";

/** A constant rather than a parameter, so that prepared statements do not send it each time. */
export const maximumQuantity = sql.fragment`${sql.literalValue(String(MAXIMUM_QUANTITY))}::bigint`;

const oldestRow = z.strictObject({ second: safeInteger.nullable() });

/** Returns the unix second of the oldest usage that is not reported yet, or null. */
export const findOldestUnreportedSecond = (db: CommonQueryMethods): Promise<number | null> =>
  db.oneFirst(sql.type(oldestRow)`
    SELECT least(
      (SELECT min(second) FROM usage_fact WHERE meter_event_id IS NULL),
      (SELECT min(second) FROM meter_event WHERE state = 'pending')
    ) AS second
  `);

/** Returns whether the built-in ledger has ever had live usage. */
export const hasLiveLedgerUsage = (db: CommonQueryMethods): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT FROM meter_event WHERE mode = 'live' AND processor = 'ledger' AND state = 'delivered'
  `);
