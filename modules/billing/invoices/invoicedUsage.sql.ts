import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { jsonRows } from "../../../db/jsonRows.ts";
import { columnsOf, safeInteger, sql, timestamp } from "../../../db/sql.ts";
import { KINDS } from "../../records/owner.rules.ts";
import { explainProblem, invoicedUsageRow, needsAttention } from "./invoiceReports.rules.ts";
import type { InvoicedUsage } from "./invoiceReports.rules.ts";
import { COMPARED_SECONDS, isUninvoiced } from "./invoices.rules.ts";
import type { ComparedUsage, Explanation } from "./invoices.rules.ts";

const comparedCustomerRow = z.strictObject({ customerId: z.string(), since: safeInteger });

/**
 * Lists the customers of Stripe that an account has had, or that all have had (null), with usage to compare that was not read
 * since `readBefore`: usage since some time before the last comparison, with all of what was found then, or since the first usage.
 */
export const listComparedCustomers = (
  db: CommonQueryMethods,
  { accountId, readBefore }: { readonly accountId: string | null; readonly readBefore: Date },
) =>
  db.any(sql.type(comparedCustomerRow)`
    WITH compared AS MATERIALIZED (
      SELECT
        customer.id AS customer_id,
        coalesce(
          extract(epoch FROM stripe_customer.read_at)::bigint - ${COMPARED_SECONDS},
          (SELECT min(second) FROM meter_event WHERE meter_event.customer_id = customer.id AND state = 'delivered')
        ) AS since
      FROM (
        SELECT DISTINCT unnest(stripe_customer_ids) AS id
        FROM account
        WHERE ${accountId}::uuid IS NULL OR id = ${accountId}
      ) AS customer
      LEFT JOIN stripe_customer ON stripe_customer.customer_id = customer.id
      WHERE coalesce(stripe_customer.read_at < ${timestamp(readBefore)}, true)
    )
    SELECT
      compared.customer_id AS "customerId",
      least(
        compared.since,
        (
          SELECT min(start_second)
          FROM invoiced_usage
          WHERE invoiced_usage.customer_id = compared.customer_id AND end_second > compared.since
        )
      ) AS since
    FROM compared
    WHERE EXISTS (
      SELECT
      FROM meter_event
      WHERE meter_event.customer_id = compared.customer_id
        AND kind = ANY(${sql.array([...KINDS], "text")})
        AND second >= compared.since
        AND state = 'delivered'
    )
    ORDER BY compared.customer_id
  `);

/** Spans of usage of a kind, and the second by which an invoice has what is delivered; null without one. */
const SPAN = { kind: "text", start: "int8", end: "int8", settledBy: "int8" } as const;

const deliveredRow = z.strictObject({
  delivered: safeInteger,
  lateAdded: safeInteger,
  lateRefunded: safeInteger,
  accountIds: z.array(z.uuid()),
});

/**
 * Sums what was delivered to a customer in each explained span, in their order, without what documents bill or an operator never bills.
 * Without usage, the accounts are those that have the customer now.
 * @param since what is older was delivered by another deployment
 */
export const sumDelivered = (
  db: CommonQueryMethods,
  customerId: string,
  explanations: readonly Explanation[],
  since: Date | null,
) =>
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
    FROM (${jsonRows(
      SPAN,
      explanations.map((each) => ({ ...each, settledBy: each.line?.finalizedAt })),
    )}) AS span
    LEFT JOIN LATERAL (
      SELECT account_id, quantity, settled_at > to_timestamp(span.settled_by) AS is_late
      FROM meter_event
      WHERE customer_id = ${customerId}
        AND kind = span.kind
        AND second >= span.start
        AND second < span.end
        AND second >= coalesce(extract(epoch FROM ${timestamp(since)})::bigint, 0)
        AND state = 'delivered'
        AND document_kind IS NULL
    ) AS event ON true
    GROUP BY place
    ORDER BY place
  `);

/** The most events of a customer that are late at a time. A busy one can have millions that no invoice has. */
export const MAXIMUM_LATE = 20_000;

/**
 * Replaces what is stored of a customer's usage since a second, and marks the oldest events that no invoice has as late, with
 * the reason. What a document or a decision has changed meanwhile stays as it is.
 */
export const replaceInvoicedUsage = async (
  transaction: DatabaseTransactionConnection,
  customerId: string,
  since: number,
  readAt: Date,
  rows: readonly (ComparedUsage & { readonly accountIds: readonly string[] })[],
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO stripe_customer (customer_id, read_at)
    VALUES (${customerId}, ${timestamp(readAt)})
    ON CONFLICT (customer_id) DO UPDATE SET read_at = excluded.read_at
  `);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM invoiced_usage
    WHERE customer_id = ${customerId} AND end_second > ${since}
  `);
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO invoiced_usage (
      customer_id, kind, start_second, end_second, account_ids, subscription_id, other_subscription_id,
      invoice_id, invoice_number, quantity, delivered, problem, units
    )
    SELECT
      ${customerId}, kind, start, "end", "accountIds", "subscriptionId", "otherSubscriptionId",
      "invoiceId", "invoiceNumber", quantity, delivered, problem, units
    FROM json_to_recordset(${JSON.stringify(rows)}) AS compared (
      kind text, start bigint, "end" bigint, "accountIds" uuid[], "subscriptionId" text, "otherSubscriptionId" text,
      "invoiceId" text, "invoiceNumber" text, quantity bigint, delivered bigint, problem text, units bigint
    )
  `);
  const late = rows.flatMap((usage) => {
    const { problem, finalizedAt } = usage;
    const settledBy = problem === "late" ? finalizedAt : 0;
    return isUninvoiced(problem) && needsAttention(usage)
      ? [{ ...usage, settledBy, reason: explainProblem(problem, usage) }]
      : [];
  });
  await transaction.query(sql.typeAlias("void")`
    WITH late AS (
      SELECT event.id, span.reason
      FROM (${jsonRows({ ...SPAN, reason: "text" }, late)}) AS span
      CROSS JOIN LATERAL (
        SELECT id, second
        FROM meter_event
        WHERE customer_id = ${customerId}
          AND kind = span.kind
          AND second >= greatest(span.start, ${since})
          AND second < span.end
          AND state = 'delivered'
          AND document_kind IS NULL
          AND settled_at > to_timestamp(span.settled_by)
        ORDER BY second, id
        LIMIT ${MAXIMUM_LATE}
      ) AS event
      ORDER BY event.second, event.id
      LIMIT ${MAXIMUM_LATE}
    ),
    marked AS (
      SELECT id FROM meter_event WHERE is_late AND customer_id = ${customerId} AND second >= ${since}
    )
    UPDATE meter_event
    SET is_late = late.id IS NOT NULL, last_error = late.reason
    FROM late
    FULL JOIN marked ON marked.id = late.id
    WHERE meter_event.id = coalesce(late.id, marked.id)
      AND meter_event.state = 'delivered'
      AND meter_event.document_kind IS NULL
      AND (late.id IS NULL OR marked.id IS NULL OR late.reason <> last_error)
  `);
};

const storedColumns = columnsOf(
  "invoiced_usage",
  invoicedUsageRow.omit({ start: true, end: true, accountNames: true }),
);

/** Lists what invoices have of the usage of an account, or of all (null), and why they lack some. */
export const listInvoicedUsage = (
  db: CommonQueryMethods,
  accountId: string | null,
  { onlyProblems = false }: { readonly onlyProblems?: boolean } = {},
): Promise<readonly InvoicedUsage[]> =>
  db.any(sql.type(invoicedUsageRow)`
    SELECT
      ${storedColumns},
      start_second AS start,
      end_second AS "end",
      coalesce(
        (SELECT string_agg(name, ', ' ORDER BY name) FROM account WHERE id = ANY(account_ids)),
        ''
      ) AS "accountNames"
    FROM invoiced_usage
    WHERE ${accountId === null ? sql.fragment`true` : sql.fragment`account_ids @> ${sql.array([accountId], "uuid")}`}
      AND ${onlyProblems ? sql.fragment`problem IS NOT NULL` : sql.fragment`true`}
    ORDER BY customer_id, kind, start_second, id
  `);
