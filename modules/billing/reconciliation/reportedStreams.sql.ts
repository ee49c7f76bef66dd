import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { KINDS } from "../../records/owner.rules.ts";
import { PROCESSORS } from "../usage.rules.ts";
import { kindColumn, modeColumn } from "../../records/columns.sql.ts";
import { sql, timestamp, values } from "../../../db/sql.ts";
import { FAILED, UNFINISHED } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import type { Span } from "../usage.rules.ts";

export const reportedStreamColumns = {
  processor: z.enum(PROCESSORS),
  mode: modeColumn,
  kind: kindColumn,
  customerId: z.string().nullable(),
  accountIds: z.tuple([z.uuid()], z.uuid()),
  accountName: z.string(),
};

const reportedStreamRow = z.strictObject(reportedStreamColumns);

/**
 * A customer's usage of one kind at the processor, which is what the processor can sum. A customer of Stripe may have
 * belonged to several accounts, which are named together. Without a customer, the stream is of one account.
 */
export type ReportedStream = Readonly<z.output<typeof reportedStreamRow>>;

/** What identifies the rows of a stream. */
export type CustomerStream = Omit<ReportedStream, "accountName">;

export const streamOfEvent = ({
  processor,
  mode,
  kind,
  customerId,
  accountId,
}: StoredMeterEvent): CustomerStream => ({
  processor,
  mode,
  kind,
  customerId,
  accountIds: [accountId],
});

const sum = z.bigint().transform(Number);

const totalsRow = reportedStreamRow.extend({ delivered: sum, pending: sum, failed: sum });

/** The units of a stream's meter events in a span. */
export type StreamTotals = Readonly<z.output<typeof totalsRow>>;

const accountSumsRow = totalsRow
  .omit({ accountIds: true, accountName: true })
  .extend({ accountId: z.uuid() });

/** The units of an account's meter events in a span, for each customer that it had. */
export type AccountSums = Readonly<z.output<typeof accountSumsRow>>;

/** Whose usage is summed: that of all accounts (null), of an account, or of other accounts that have had customers. */
export type SummedUsage =
  | { readonly accountId: string }
  | { readonly customerIds: readonly string[]; readonly exceptAccountId: string }
  | null;

const isSummed = (of: SummedUsage): FragmentSqlToken => {
  if (of === null) {
    return sql.fragment`true`;
  }
  return "accountId" in of
    ? sql.fragment`account_id = ${of.accountId}`
    : sql.fragment`customer_id = ANY(${sql.array([...of.customerIds], "text")}) AND account_id <> ${of.exceptAccountId}`;
};

/**
 * Sums the meter events in a span that were sent or are still to be sent, by account.
 * @param atStripe the span of the streams at Stripe
 */
export const sumReportedAccounts = (
  db: CommonQueryMethods,
  span: Span,
  { atStripe, of }: { readonly atStripe: Span; readonly of: SummedUsage },
): Promise<readonly AccountSums[]> =>
  db.any(sql.type(accountSumsRow)`
    SELECT
      processor,
      mode,
      kind,
      customer_id AS "customerId",
      account_id AS "accountId",
      coalesce(sum(quantity) FILTER (WHERE state = 'delivered'), 0)::bigint AS delivered,
      coalesce(sum(quantity) FILTER (WHERE state IN (${UNFINISHED})), 0)::bigint AS pending,
      coalesce(sum(quantity) FILTER (WHERE state IN (${FAILED})), 0)::bigint AS failed
    FROM meter_event
    WHERE second >= ${span.start}
      AND second < ${span.end}
      AND (processor <> 'stripe' OR second >= ${atStripe.start})
      AND state NOT IN ('void', 'held', 'superseded', 'waived')
      AND ${isSummed(of)}
    GROUP BY processor, mode, kind, customer_id, account_id
  `);

/** Adds the sums of accounts up to those of streams. An account may have several sums of a stream. */
export const sumReportedStreams = (
  db: CommonQueryMethods,
  sums: readonly AccountSums[],
): Promise<readonly StreamTotals[]> =>
  db.any(sql.type(totalsRow)`
    WITH summed AS (
      SELECT
        processor, mode, kind, customer_id, account_id,
        sum(delivered) AS delivered, sum(pending) AS pending, sum(failed) AS failed
      FROM ${sql.unnest(
        sums.map(({ processor, mode, kind, customerId, accountId, delivered, pending, failed }) => [
          processor,
          mode,
          kind,
          customerId,
          accountId,
          delivered,
          pending,
          failed,
        ]),
        ["text", "text", "text", "text", "uuid", "int8", "int8", "int8"],
      )} AS given (processor, mode, kind, customer_id, account_id, delivered, pending, failed)
      GROUP BY processor, mode, kind, customer_id, account_id
    )
    SELECT
      processor,
      mode,
      kind,
      customer_id AS "customerId",
      array_agg(account_id ORDER BY account.name, account_id) AS "accountIds",
      string_agg(account.name, ', ' ORDER BY account.name, account_id) AS "accountName",
      sum(delivered)::bigint AS delivered,
      sum(pending)::bigint AS pending,
      sum(failed)::bigint AS failed
    FROM summed
    JOIN account ON account.id = summed.account_id
    GROUP BY processor, mode, kind, customer_id, CASE WHEN customer_id IS NULL THEN account_id END
    ORDER BY "accountName", "accountIds", mode, kind, processor, customer_id
  `);

/**
 * Lists the live streams at Stripe: of the customers that accounts have, and of those with meter events in a span. The
 * account that has the customer comes first, then the one with the latest usage.
 */
export const listStripeStreams = (
  db: CommonQueryMethods,
  span: Span,
  accountId: string | null,
): Promise<readonly ReportedStream[]> =>
  db.any(sql.type(reportedStreamRow)`
    WITH account_stream AS (
      SELECT id AS account_id, stripe_customer_id AS customer_id, kind.kind, true AS is_current, 0::bigint AS second
      FROM account
      CROSS JOIN ${values(KINDS)} AS kind
      WHERE stripe_customer_id IS NOT NULL
      UNION ALL
      SELECT account_id, customer_id, kind, false, max(second)
      FROM meter_event
      WHERE second >= ${span.start}
        AND second < ${span.end}
        AND mode = 'live'
        AND processor = 'stripe'
        AND customer_id IS NOT NULL
      GROUP BY account_id, customer_id, kind
    ),
    ranked AS (
      SELECT account_id, customer_id, kind, bool_or(is_current) AS is_current, max(second) AS second
      FROM account_stream
      GROUP BY account_id, customer_id, kind
    )
    SELECT
      'stripe' AS processor,
      'live' AS mode,
      kind,
      customer_id AS "customerId",
      array_agg(account_id ORDER BY is_current DESC, second DESC, account_id) AS "accountIds",
      string_agg(account.name, ', ' ORDER BY is_current DESC, second DESC, account_id) AS "accountName"
    FROM ranked
    JOIN account ON account.id = ranked.account_id
    GROUP BY customer_id, kind
    HAVING ${accountId === null ? sql.fragment`true` : sql.fragment`bool_or(account_id = ${accountId})`}
    ORDER BY "accountName", customer_id, kind
  `);

/** The condition that a meter event is of a stream: through the customer's index, or else the account's. */
export const isOfStream = ({
  processor,
  mode,
  kind,
  customerId,
  accountIds,
}: CustomerStream): FragmentSqlToken => sql.fragment`
  meter_event.processor = ${processor}
  AND meter_event.mode = ${mode}
  AND meter_event.kind = ${kind}
  AND ${
    customerId === null
      ? sql.fragment`meter_event.account_id = ${accountIds[0]} AND meter_event.customer_id IS NULL`
      : sql.fragment`meter_event.customer_id = ${customerId}`
  }
`;

const minuteSumsRow = z.strictObject({
  minute: sum,
  delivered: sum,
  unfinished: sum,
  failed: sum,
  recentlyAdded: sum,
  recentlyRefunded: sum,
  sendingAdded: sum,
  sendingRefunded: sum,
});

/**
 * The units in a stream's meter events of one minute, by state. `minute` is the unix second at which it starts.
 * `recentlyAdded` and `recentlyRefunded` (0 or below) are parts of `delivered`. `sendingAdded` and `sendingRefunded` are
 * parts of `unfinished` that the processor may have: their attempts are in progress, or ended without a result.
 */
export type MinuteSums = Readonly<z.output<typeof minuteSumsRow>>;

/** @param recentAfter deliveries, and ends of leases, after this time count as recent */
export const sumMeterEventsByMinute = (
  db: CommonQueryMethods,
  stream: ReportedStream,
  span: Span,
  recentAfter: Date,
): Promise<readonly MinuteSums[]> =>
  db.any(sql.type(minuteSumsRow)`
    SELECT
      second - second % 60 AS minute,
      coalesce(sum(quantity) FILTER (WHERE state = 'delivered'), 0)::bigint AS delivered,
      coalesce(sum(quantity) FILTER (WHERE state IN (${UNFINISHED})), 0)::bigint AS unfinished,
      coalesce(sum(quantity) FILTER (WHERE state IN (${FAILED})), 0)::bigint AS failed,
      coalesce(sum(greatest(quantity, 0)) FILTER (WHERE recent), 0)::bigint AS "recentlyAdded",
      coalesce(sum(least(quantity, 0)) FILTER (WHERE recent), 0)::bigint AS "recentlyRefunded",
      coalesce(sum(greatest(quantity, 0)) FILTER (WHERE sending), 0)::bigint AS "sendingAdded",
      coalesce(sum(least(quantity, 0)) FILTER (WHERE sending), 0)::bigint AS "sendingRefunded"
    FROM (
      SELECT
        second,
        quantity,
        state,
        state = 'delivered' AND settled_at > ${timestamp(recentAfter)} AS recent,
        state = 'sending' AND (leased_until > ${timestamp(recentAfter)} OR outcome_unknown) AS sending
      FROM meter_event
      WHERE ${isOfStream(stream)} AND second >= ${span.start} AND second < ${span.end}
    ) AS reported
    GROUP BY 1
    ORDER BY 1
  `);
