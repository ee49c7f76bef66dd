import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { kindColumn } from "../../records/columns.sql.ts";
import type { Kind } from "../../records/owner.rules.ts";
import { columnsOf, safeInteger, sql, timestamp } from "../../../db/sql.ts";
import { DOCUMENT_KINDS } from "../meterEvents.rules.ts";
import type { BillingDocument } from "../meterEvents.rules.ts";
import { inSpan } from "../streams.sql.ts";
import type { Span } from "../usage.rules.ts";

const storedRow = z.strictObject({
  id: z.bigint(),
  accountId: z.uuid(),
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

const differenceRow = storedRow.extend({ accountName: z.string() });

/** Units of a minute by which the processor's sum differs from what was delivered. */
export type UsageDifference = Readonly<z.output<typeof differenceRow>>;

const selectDifferences = sql.fragment`
  SELECT ${columnsOf("usage_difference", storedRow)}, account.name AS "accountName"
  FROM usage_difference
  JOIN account ON account.id = usage_difference.account_id
`;

export const findDifference = (
  db: CommonQueryMethods,
  id: bigint,
): Promise<UsageDifference | null> =>
  db.maybeOne(sql.type(differenceRow)`
    ${selectDifferences} WHERE usage_difference.id = ${id}
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
    ${selectDifferences}
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

const idRow = z.strictObject({ id: z.bigint() });

/** Stores an open difference, or what it is now if its minute has one, and returns its id. */
const storeOpenDifference = (
  transaction: DatabaseTransactionConnection,
  { accountId, kind, customerId, second, units }: FoundUnits,
  now: Date,
): Promise<bigint> =>
  transaction.oneFirst(sql.type(idRow)`
    INSERT INTO usage_difference (account_id, kind, customer_id, second, units, found_at)
    VALUES (${accountId}, ${kind}, ${customerId}, ${second}, ${units}, ${timestamp(now)})
    ON CONFLICT (customer_id, kind, minute) WHERE state = 'open'
    DO UPDATE SET
      account_id = excluded.account_id, second = excluded.second, units = excluded.units, found_at = excluded.found_at
    RETURNING id
  `);

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
  for (const each of found) {
    await storeOpenDifference(transaction, each, now);
  }
};

/** How a difference is closed. */
export type ClosedDifference = {
  /** Whether the units are sent, or taken back. Otherwise they are accepted. */
  readonly isSent: boolean;
  readonly reason: string | null;
  readonly by: string;
  readonly document: BillingDocument | null;
  readonly now: Date;
};

/**
 * Closes a difference. Its units count as delivered without having been sent, so that our sum of the minute equals the
 * processor's; if they are sent, another fact takes them back. Must run under the stream's lock.
 * @param difference.id null: the comparison that has found the units decides about them, too
 */
export const closeDifference = async (
  transaction: DatabaseTransactionConnection,
  { id, ...found }: FoundUnits & { readonly id: bigint | null },
  { isSent, reason, by, document, now }: ClosedDifference,
): Promise<void> => {
  const { accountId, kind, customerId, second, units } = found;
  const closedId = id ?? (await storeOpenDifference(transaction, found, now));
  await transaction.query(sql.typeAlias("void")`
    UPDATE usage_difference
    SET
      state = ${isSent ? "sent" : "accepted"},
      reason = ${reason},
      closed_by = ${by},
      closed_at = ${timestamp(now)},
      document_kind = ${document?.kind ?? null},
      document_reference = ${document?.reference ?? null}
    WHERE id = ${closedId}
  `);
  await transaction.query(sql.typeAlias("void")`
    WITH delivered AS (
      INSERT INTO meter_event
        (account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state, sealed_at, settled_at)
      SELECT
        ${accountId}, 'live', ${kind}, ${second}, next.sequence, ${units},
        ${`difference:${closedId}`}, 'stripe', ${customerId}, 'delivered', ${timestamp(now)},
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
    SELECT ${accountId}, 'live', ${kind}, ${closedId}, units.quantity, ${second}, units.meter_event_id
    FROM (
      SELECT ${units}::bigint AS quantity, id AS meter_event_id FROM delivered
      UNION ALL
      SELECT ${-units}::bigint, NULL FROM delivered WHERE ${isSent}
    ) AS units
  `);
};
