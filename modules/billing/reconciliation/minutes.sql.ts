import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { sql, values } from "../../../db/sql.ts";
import { selectMeterEvents } from "../meterEvents.sql.ts";
import { inSpan } from "../streams.sql.ts";
import type { Span } from "../usage.rules.ts";
import { kindColumn } from "../../records/columns.sql.ts";
import { KINDS } from "../../records/owner.rules.ts";
import type { Kind } from "../../records/owner.rules.ts";

/** A customer's live usage of one kind at Stripe; without a customer, usage of an account that was never sent. */
export type CustomerStream = {
  readonly kind: Kind;
  readonly customerId: string | null;
  readonly accountId: string;
};

/** The condition that an event is of a stream in a span. Through the customer's index, or else the account's. */
const isIn = ({ kind, customerId, accountId }: CustomerStream, span: Span): FragmentSqlToken =>
  sql.fragment`
    processor = 'stripe'
    AND mode = 'live'
    AND kind = ${kind}
    AND ${
      customerId === null
        ? sql.fragment`account_id = ${accountId} AND customer_id IS NULL`
        : sql.fragment`customer_id = ${customerId}`
    }
    AND ${inSpan("meter_event", span)}
  `;

/** Lists all events of a stream in a span, whichever account they belong to. */
export const listEventsOfSpan = (db: CommonQueryMethods, stream: CustomerStream, span: Span) =>
  db.any(selectMeterEvents(isIn(stream, span)));

const customerRow = z.strictObject({ customerId: z.string(), accountIds: z.array(z.uuid()) });

/** Lists the other Stripe customers that accounts have had: a lost history may have sent usage to any of them. */
export const listOtherCustomers = (
  db: CommonQueryMethods,
  accountIds: readonly string[],
  customerId: string | null,
) =>
  db.any(sql.type(customerRow)`
    SELECT customer.id AS "customerId", array_agg(account.id) AS "accountIds"
    FROM account
    CROSS JOIN LATERAL unnest(account.stripe_customer_ids) AS customer (id)
    WHERE account.id = ANY(${sql.array([...accountIds], "uuid")}) AND customer.id IS DISTINCT FROM ${customerId}::text
    GROUP BY customer.id
    ORDER BY customer.id
  `);

const reportedStreamRow = z
  .strictObject({
    kind: kindColumn,
    customerId: z.string(),
    accountIds: z.tuple([z.uuid()], z.uuid()),
    accountName: z.string(),
  })
  .transform((row) => ({ ...row, accountId: row.accountIds[0] }));

/** A customer's live usage of one kind at Stripe. A customer may have belonged to several accounts, which are named together. */
export type ReportedStream = Readonly<z.output<typeof reportedStreamRow>>;

/**
 * Lists the live streams at Stripe of the customers that accounts have had. The account that has the customer now comes first.
 * @param accountId only the streams of this account, with the others that have had its customers; null: all
 */
export const listStripeStreams = (db: CommonQueryMethods, accountId: string | null) => {
  const order = sql.fragment`customer.id IS NOT DISTINCT FROM account.stripe_customer_id DESC, account.id`;
  return db.any(sql.type(reportedStreamRow)`
    SELECT
      kind.kind,
      customer.id AS "customerId",
      array_agg(account.id ORDER BY ${order}) AS "accountIds",
      string_agg(account.name, ', ' ORDER BY ${order}) AS "accountName"
    FROM account
    CROSS JOIN LATERAL unnest(account.stripe_customer_ids) AS customer (id)
    CROSS JOIN ${values(KINDS)} AS kind
    GROUP BY customer.id, kind.kind
    HAVING ${accountId}::uuid IS NULL OR bool_or(account.id = ${accountId})
    ORDER BY "accountName", customer.id, kind.kind
  `);
};

const unitsRow = z.strictObject({ units: z.bigint().transform(Number) });

export const sumDeliveredUnits = (db: CommonQueryMethods, stream: CustomerStream, span: Span) =>
  db.oneFirst(sql.type(unitsRow)`
    SELECT coalesce(sum(quantity), 0)::bigint AS units
    FROM meter_event
    WHERE ${isIn(stream, span)} AND state = 'delivered'
  `);
