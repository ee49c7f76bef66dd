import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { kindColumn } from "../../records/columns.sql.ts";
import type { Kind } from "../../records/owner.rules.ts";
import { safeInteger, sql, timestamp } from "../../../db/sql.ts";
import { DOCUMENT_KINDS } from "../meterEvents.rules.ts";
import type { BillingDocument } from "../meterEvents.rules.ts";
import { inSpan } from "../streams.sql.ts";
import type { Span } from "../usage.rules.ts";

const differenceRow = z.strictObject({
  id: z.bigint(),
  accountId: z.uuid(),
  accountName: z.string(),
  kind: kindColumn,
  customerId: z.string(),
  second: safeInteger,
  minute: safeInteger,
  units: safeInteger,
  foundAt: z.date(),
  state: z.enum(["open", "sent", "accepted"]),
  reason: z.string().nullable(),
  closedBy: z.string().nullable(),
  closedAt: z.date().nullable(),
  documentKind: z.enum(DOCUMENT_KINDS).nullable(),
  documentReference: z.string().nullable(),
});

/** Units of a minute by which the processor's sum differs from what was delivered. */
export type UsageDifference = Readonly<z.output<typeof differenceRow>>;

const columns = sql.fragment`
  usage_difference.id,
  usage_difference.account_id AS "accountId",
  account.name AS "accountName",
  usage_difference.kind,
  usage_difference.customer_id AS "customerId",
  usage_difference.second,
  usage_difference.minute,
  usage_difference.units,
  usage_difference.found_at AS "foundAt",
  usage_difference.state,
  usage_difference.reason,
  usage_difference.closed_by AS "closedBy",
  usage_difference.closed_at AS "closedAt",
  usage_difference.document_kind AS "documentKind",
  usage_difference.document_reference AS "documentReference"
`;

const fromDifferences = sql.fragment`
  FROM usage_difference JOIN account ON account.id = usage_difference.account_id
`;

export const findDifference = (
  db: CommonQueryMethods,
  id: bigint,
): Promise<UsageDifference | null> =>
  db.maybeOne(sql.type(differenceRow)`
    SELECT ${columns} ${fromDifferences} WHERE usage_difference.id = ${id}
  `);

/** Lists the open differences, the newest first. */
export const listOpenDifferences = (
  db: CommonQueryMethods,
  {
    accountId,
    span,
    limit,
  }: { readonly accountId: string | null; readonly span: Span | null; readonly limit: number },
): Promise<readonly UsageDifference[]> =>
  db.any(sql.type(differenceRow)`
    SELECT ${columns}
    ${fromDifferences}
    WHERE usage_difference.state = 'open'
      AND ${accountId === null ? sql.fragment`true` : sql.fragment`usage_difference.account_id = ${accountId}`}
      AND ${inSpan(sql.fragment`usage_difference.second`, span)}
    ORDER BY usage_difference.id DESC
    LIMIT ${limit}
  `);

/** Units that a comparison has found in a minute. */
export type FoundUnits = {
  readonly accountId: string;
  readonly kind: Kind;
  readonly customerId: string;
  readonly second: number;
  readonly units: number;
};

/**
 * Replaces the open differences of a customer in a span by those that were found there now. One that is found again keeps its
 * id.
 */
export const replaceOpenDifferences = async (
  transaction: DatabaseTransactionConnection,
  { customerId, kind }: Pick<FoundUnits, "customerId" | "kind">,
  { start, end }: Span,
  found: readonly FoundUnits[],
  now: Date,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM usage_difference
    WHERE customer_id = ${customerId}
      AND kind = ${kind}
      AND minute >= ${start}
      AND minute < ${end}
      AND state = 'open'
      AND minute <> ALL(${sql.array(
        found.map(({ second }) => second - (second % 60)),
        "int8",
      )})
  `);
  for (const { accountId, second, units } of found) {
    await transaction.query(sql.typeAlias("void")`
      INSERT INTO usage_difference (account_id, kind, customer_id, second, units, found_at)
      VALUES (${accountId}, ${kind}, ${customerId}, ${second}, ${units}, ${timestamp(now)})
      ON CONFLICT (customer_id, kind, minute) WHERE state = 'open'
      DO UPDATE SET units = excluded.units, found_at = excluded.found_at
    `);
  }
};

/** How a difference is closed. */
export type ClosedDifference = {
  /** Whether the units are sent, or taken back. Otherwise they are accepted. */
  readonly isSent: boolean;
  readonly reason: string;
  readonly by: string;
  readonly document: BillingDocument | null;
  readonly now: Date;
};

const idRow = z.strictObject({ id: z.bigint() });

/** Records units that were never open: the comparison that has found them decides about them, too. */
export const insertClosedDifference = (
  transaction: DatabaseTransactionConnection,
  { accountId, kind, customerId, second, units }: FoundUnits,
  closed: ClosedDifference,
): Promise<bigint> =>
  transaction.oneFirst(sql.type(idRow)`
    INSERT INTO usage_difference
      (
        account_id, kind, customer_id, second, units, found_at, state, reason, closed_by, closed_at, document_kind,
        document_reference
      )
    VALUES (
      ${accountId}, ${kind}, ${customerId}, ${second}, ${units}, ${timestamp(closed.now)},
      ${closed.isSent ? "sent" : "accepted"}, ${closed.reason}, ${closed.by}, ${timestamp(closed.now)},
      ${closed.document?.kind ?? null}, ${closed.document?.reference ?? null}
    )
    RETURNING id
  `);

export const closeDifference = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
  { isSent, reason, by, document, now }: ClosedDifference,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE usage_difference
    SET
      state = ${isSent ? "sent" : "accepted"},
      reason = ${reason},
      closed_by = ${by},
      closed_at = ${timestamp(now)},
      document_kind = ${document?.kind ?? null},
      document_reference = ${document?.reference ?? null}
    WHERE id = ${id}
  `);
};

/**
 * Records the units of a closed difference as delivered without having been sent, so that our sum of the minute equals the
 * processor's, and if they are to be sent, the facts that take them back. Must run under the stream's lock.
 */
export const insertDifferenceFacts = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
  { accountId, kind, customerId, second, units }: FoundUnits,
  { isSent, now }: { readonly isSent: boolean; readonly now: Date },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    WITH delivered AS (
      INSERT INTO meter_event
        (account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state, sealed_at, settled_at)
      SELECT
        ${accountId}, 'live', ${kind}, ${second}, next.sequence, ${units},
        ${`difference:${id}`}, 'stripe', ${customerId}, 'delivered', ${timestamp(now)},
        -- Not now: the processor's sums contain it.
        to_timestamp(${second}::bigint)
      FROM (
        SELECT coalesce(max(sequence), 0) + 1 AS sequence
        FROM meter_event
        WHERE account_id = ${accountId} AND mode = 'live' AND kind = ${kind} AND second = ${second}
      ) AS next
      RETURNING id
    )
    INSERT INTO usage_fact (account_id, mode, kind, difference_id, quantity, second, meter_event_id)
    SELECT ${accountId}, 'live', ${kind}, ${id}, units.quantity, ${second}, units.meter_event_id
    FROM (
      SELECT ${units}::bigint AS quantity, id AS meter_event_id FROM delivered
      UNION ALL
      SELECT ${-units}::bigint, NULL FROM delivered WHERE ${isSent}
    ) AS units
  `);
};
