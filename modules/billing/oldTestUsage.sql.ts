import type { DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import type { Span } from "./usage.rules.ts";
import { sql } from "../../db/sql.ts";
import { FAILED, UNFINISHED } from "./meterEvents.sql.ts";

const secondRow = z.strictObject({ second: z.bigint() });

/**
 * Lists the seconds of a stream, from `start` and before `end`, whose usage is not settled: it is not sealed or not sent,
 * has failed, or was corrected.
 */
export const listUnsettledSeconds = async (
  transaction: DatabaseTransactionConnection,
  { accountId, mode, kind }: Owner,
  { start, end }: Span,
): Promise<ReadonlySet<number>> => {
  const ofSpan = sql.fragment`
    account_id = ${accountId} AND mode = ${mode} AND kind = ${kind} AND second >= ${start} AND second < ${end}
  `;
  const seconds = await transaction.anyFirst(sql.type(secondRow)`
    SELECT second FROM meter_event WHERE ${ofSpan} AND state IN (${UNFINISHED}, ${FAILED})
    UNION
    SELECT second FROM usage_fact WHERE ${ofSpan} AND meter_event_id IS NULL
    UNION
    SELECT second FROM usage_correction WHERE ${ofSpan}
  `);
  return new Set(seconds.map(Number));
};

/**
 * Deletes the usage of whole seconds, which is sealed: the facts, the meter events, and what the built-in ledger has of
 * them.
 */
export const deleteUsage = async (
  transaction: DatabaseTransactionConnection,
  { accountId, mode, kind }: Owner,
  seconds: readonly number[],
): Promise<void> => {
  const ofSeconds = sql.fragment`
    account_id = ${accountId} AND mode = ${mode} AND kind = ${kind} AND second = ANY(${sql.array(seconds, "int8")})
  `;
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM usage_fact WHERE meter_event_id = ANY(ARRAY(SELECT id FROM meter_event WHERE ${ofSeconds}))
  `);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM ledger_usage WHERE identifier IN (SELECT identifier FROM meter_event WHERE ${ofSeconds})
  `);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM meter_event WHERE ${ofSeconds}
  `);
};
