import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { ofStream } from "./streams.sql.ts";
import type { Span } from "./usage.rules.ts";

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
  stream: Owner,
): Promise<Seconds | null> => {
  const unsealed = sql.fragment`
    FROM usage_fact WHERE ${ofStream("usage_fact", stream)} AND meter_event_id IS NULL
  `;
  return asSeconds(
    await db.one(sql.prepared("find_pending_seconds", spanRow)`
      SELECT min(pending.second) AS first, max(pending.second) AS last
      FROM (
        SELECT min(second) AS second ${unsealed}
        UNION ALL
        SELECT max(second) ${unsealed}
        UNION ALL
        SELECT second FROM meter_event WHERE ${ofStream("meter_event", stream)} AND state = 'pending'
      ) AS pending
    `),
  );
};

/** Returns the seconds between which a stream has failed usage; null if it has none. */
export const findFailedSeconds = async (
  db: CommonQueryMethods,
  stream: Owner,
): Promise<Seconds | null> =>
  asSeconds(
    await db.one(sql.prepared("find_failed_seconds", spanRow)`
      SELECT min(second) AS first, max(second) AS last
      FROM meter_event
      WHERE ${ofStream("meter_event", stream)} AND state = 'failed'
    `),
  );

const secondRow = z.strictObject({ second: z.bigint() });

/**
 * Lists the seconds of a stream, from `start` and before `end`, whose usage is not settled: it is not sealed or not sent, or
 * has failed.
 */
export const listUnsettledSeconds = async (
  transaction: DatabaseTransactionConnection,
  stream: Owner,
  { start, end }: Span,
): Promise<ReadonlySet<number>> => {
  const inTable = (table: "meter_event" | "usage_fact") =>
    sql.fragment`
      SELECT second
      FROM ${sql.identifier([table])}
      WHERE ${ofStream(table, stream)} AND second >= ${start} AND second < ${end}
    `;
  const seconds = await transaction.anyFirst(sql.type(secondRow)`
    ${inTable("meter_event")} AND state IN ('pending', 'failed')
    UNION
    ${inTable("usage_fact")} AND meter_event_id IS NULL
  `);
  return new Set(seconds.map(Number));
};

/** Deletes the usage of whole seconds, which is sealed: the facts and the meter events. */
export const deleteUsage = async (
  transaction: DatabaseTransactionConnection,
  stream: Owner,
  seconds: readonly number[],
): Promise<void> => {
  const ofSeconds = sql.fragment`
    ${ofStream("meter_event", stream)} AND second = ANY(${sql.array(seconds, "int8")})
  `;
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM usage_fact WHERE meter_event_id = ANY(ARRAY(SELECT id FROM meter_event WHERE ${ofSeconds}))
  `);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM meter_event WHERE ${ofSeconds}
  `);
};

/** Returns whether the built-in ledger has ever had live usage. */
export const hasLiveLedgerUsage = (db: CommonQueryMethods): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT FROM meter_event WHERE mode = 'live' AND processor = 'ledger' AND state = 'delivered'
  `);
