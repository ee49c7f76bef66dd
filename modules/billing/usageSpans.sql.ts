import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { FAILED, UNFINISHED } from "./meterEvents.sql.ts";

const spanRow = z.strictObject({
  first: safeInteger.nullable(),
  last: safeInteger.nullable(),
});

/** The first and the last unix second, both inclusive. */
export type Seconds = { readonly first: number; readonly last: number };

const asSeconds = ({ first, last }: z.output<typeof spanRow>): Seconds | null =>
  first === null || last === null ? null : { first, last };

/** Returns the seconds between which a stream has usage to report; null if it has none. */
export const findPendingSeconds = async (
  db: CommonQueryMethods,
  { accountId, mode, kind }: Owner,
): Promise<Seconds | null> => {
  const stream = sql.fragment`account_id = ${accountId} AND mode = ${mode} AND kind = ${kind}`;
  return asSeconds(
    await db.one(sql.prepared("find_pending_seconds", spanRow)`
      SELECT min(pending.second) AS first, max(pending.second) AS last
      FROM (
        SELECT min(second) AS second FROM usage_fact WHERE ${stream} AND meter_event_id IS NULL
        UNION ALL
        SELECT max(second) FROM usage_fact WHERE ${stream} AND meter_event_id IS NULL
        UNION ALL
        SELECT second FROM meter_event WHERE ${stream} AND state IN (${UNFINISHED})
      ) AS pending
    `),
  );
};

/** Returns the seconds between which a stream has failed usage; null if it has none. */
export const findFailedSeconds = async (
  db: CommonQueryMethods,
  { accountId, mode, kind }: Owner,
): Promise<Seconds | null> =>
  asSeconds(
    await db.one(sql.prepared("find_failed_seconds", spanRow)`
      SELECT min(second) AS first, max(second) AS last
      FROM meter_event
      WHERE account_id = ${accountId} AND mode = ${mode} AND kind = ${kind} AND state IN (${FAILED})
    `),
  );
