import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { safeInteger, sql, timestamp, values } from "../../../db/sql.ts";
import { KINDS } from "../../records/owner.rules.ts";
import type { Kind } from "../../records/owner.rules.ts";
import type { Span } from "../usage.rules.ts";
import { invoicedUsageRow } from "./invoiceReports.rules.ts";
import type { InvoicedUsage } from "./invoiceReports.rules.ts";
import type { ComparedUsage } from "./invoices.rules.ts";

/** Usage may be delivered this long after its second. Stripe rejects older usage. */
const DELIVERABLE_SECONDS = 36 * 86_400;

const idRow = z.strictObject({ id: z.string().nullable() });

/** Returns the next customer, in the order of their ids, to which usage was ever sent; null after the last one. */
export const findNextCustomer = (db: CommonQueryMethods, after: string): Promise<string | null> =>
  db.oneFirst(sql.type(idRow)`
    SELECT min(customer_id) AS id
    FROM meter_event
    WHERE customer_id > ${after}
  `);

/** Lists the customers that an account's usage was sent to. */
export const listCustomersOfAccount = (
  db: CommonQueryMethods,
  accountId: string,
): Promise<readonly (string | null)[]> =>
  db.anyFirst(sql.type(idRow)`
    SELECT DISTINCT customer_id AS id
    FROM meter_event
    WHERE account_id = ${accountId} AND mode = 'live' AND customer_id IS NOT NULL
  `);

/** The second of a customer's first delivered usage that meets a condition. The index finds it, kind by kind. */
const firstSecond = (
  customerId: string,
  condition: FragmentSqlToken,
): FragmentSqlToken => sql.fragment`
  (
    SELECT min(first.second)
    FROM ${values(KINDS)} AS used (kind)
    CROSS JOIN LATERAL (
      SELECT meter_event.second
      FROM meter_event
      WHERE meter_event.customer_id = ${customerId}
        AND meter_event.kind = used.kind
        AND meter_event.state = 'delivered'
        AND ${condition}
      ORDER BY meter_event.second
      LIMIT 1
    ) AS first
  )
`;

const openRow = z.strictObject({ second: safeInteger.nullable() });

/**
 * Returns the first second of a customer's usage that is still to be compared: usage since the last comparison left off, or
 * earlier usage that was delivered afterwards, with the whole span of the invoice that should have it. Null if there is
 * none, or if the customer was read since `readBefore`.
 */
export const findOpenUsage = (
  db: CommonQueryMethods,
  { customerId, readBefore }: { readonly customerId: string; readonly readBefore: Date },
): Promise<number | null> =>
  db.oneFirst(sql.type(openRow)`
    SELECT least(
      open.second,
      (
        SELECT min(start_second)
        FROM invoiced_usage
        WHERE customer_id = ${customerId} AND start_second <= open.second AND end_second > open.second
      )
    ) AS second
    FROM (VALUES (true)) AS always (present)
    LEFT JOIN stripe_customer AS known ON known.customer_id = ${customerId}
    CROSS JOIN LATERAL (
      SELECT
        CASE WHEN known.read_at IS NULL OR known.read_at < ${timestamp(readBefore)} THEN least(
          ${firstSecond(customerId, sql.fragment`meter_event.second >= coalesce(known.open_since, 0)`)},
          ${firstSecond(
            customerId,
            sql.fragment`
              meter_event.second < known.open_since
              AND meter_event.second >= extract(epoch FROM known.read_at)::bigint - ${DELIVERABLE_SECONDS}
              AND meter_event.settled_at >= known.read_at
            `,
          )}
        ) END AS second
    ) AS open
  `);

const deliveredRow = z.strictObject({
  delivered: safeInteger,
  lateAdded: safeInteger,
  lateRefunded: safeInteger,
  accountIds: z.array(z.uuid()),
});

/**
 * Sums what was delivered to a customer in each span, in their order. Without usage, the accounts are those that have the
 * customer now.
 * @param since what is older was delivered by another deployment
 */
export const sumDelivered = (
  db: CommonQueryMethods,
  customerId: string,
  spans: readonly (Span & { readonly kind: Kind; readonly finalizedAt: number | null })[],
  since: Date | null,
): Promise<readonly Readonly<z.output<typeof deliveredRow>>[]> =>
  db.any(sql.type(deliveredRow)`
    SELECT
      coalesce(sum(quantity), 0)::bigint AS delivered,
      coalesce(sum(quantity) FILTER (WHERE is_late AND quantity > 0), 0)::bigint AS "lateAdded",
      coalesce(sum(quantity) FILTER (WHERE is_late AND quantity < 0), 0)::bigint AS "lateRefunded",
      coalesce(
        array_agg(DISTINCT account_id) FILTER (WHERE account_id IS NOT NULL),
        (SELECT array_agg(id) FROM account WHERE stripe_customer_id = ${customerId}),
        '{}'
      ) AS "accountIds"
    FROM ${sql.unnest(
      spans.map(({ kind, start, end, finalizedAt }, place) => [
        place,
        kind,
        start,
        end,
        finalizedAt,
      ]),
      ["int4", "text", "int8", "int8", "int8"],
    )} AS span (place, kind, start_second, end_second, finalized_at)
    LEFT JOIN LATERAL (
      SELECT account_id, quantity, settled_at > to_timestamp(span.finalized_at) AS is_late
      FROM meter_event
      WHERE customer_id = ${customerId}
        AND kind = span.kind
        AND second >= span.start_second
        AND second < span.end_second
        AND second >= coalesce(extract(epoch FROM ${timestamp(since)})::bigint, 0)
        AND state = 'delivered'
    ) AS event ON true
    GROUP BY place
    ORDER BY place
  `);

/** Replaces what is stored of a customer's usage since a second. */
export const replaceInvoicedUsage = async (
  transaction: DatabaseTransactionConnection,
  customerId: string,
  {
    since,
    openSince,
    readAt,
    rows,
  }: {
    readonly since: number;
    readonly openSince: number;
    readonly readAt: Date;
    readonly rows: readonly (ComparedUsage & { readonly accountIds: readonly string[] })[];
  },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO stripe_customer (customer_id, read_at, open_since)
    VALUES (${customerId}, ${timestamp(readAt)}, ${openSince})
    ON CONFLICT (customer_id) DO UPDATE
    SET read_at = excluded.read_at, open_since = excluded.open_since
  `);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM invoiced_usage
    WHERE customer_id = ${customerId} AND end_second > ${since}
  `);
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO invoiced_usage (
      customer_id, kind, start_second, end_second, account_ids, subscription_id, other_subscription_id,
      invoice_id, invoice_number, invoice_status, quantity, delivered, problem, units
    )
    SELECT
      ${customerId}, kind, start, "end", "accountIds", "subscriptionId", "otherSubscriptionId",
      line ->> 'invoiceId', line ->> 'number', line ->> 'status', (line ->> 'quantity')::bigint, delivered, problem, units
    FROM json_to_recordset(${JSON.stringify(rows)}) AS compared (
      kind text, start bigint, "end" bigint, "accountIds" uuid[], "subscriptionId" text, "otherSubscriptionId" text,
      line json, delivered bigint, problem text, units bigint
    )
  `);
};

/** Lists what invoices have of the usage of an account, or of all (null), and why they lack some. */
export const listInvoicedUsage = (
  db: CommonQueryMethods,
  accountId: string | null,
  { onlyProblems = false }: { readonly onlyProblems?: boolean } = {},
): Promise<readonly InvoicedUsage[]> =>
  db.any(sql.type(invoicedUsageRow)`
    SELECT
      customer_id AS "customerId",
      kind,
      start_second AS start,
      end_second AS "end",
      coalesce(
        (SELECT string_agg(name, ', ' ORDER BY name) FROM account WHERE id = ANY(account_ids)),
        ''
      ) AS "accountNames",
      account_ids AS "accountIds",
      subscription_id AS "subscriptionId",
      other_subscription_id AS "otherSubscriptionId",
      invoice_id AS "invoiceId",
      invoice_number AS "invoiceNumber",
      quantity,
      delivered,
      problem,
      units
    FROM invoiced_usage
    WHERE ${accountId === null ? sql.fragment`true` : sql.fragment`account_ids @> ${sql.array([accountId], "uuid")}`}
      AND ${onlyProblems ? sql.fragment`problem IS NOT NULL` : sql.fragment`true`}
    ORDER BY customer_id, kind, start_second, id
  `);
