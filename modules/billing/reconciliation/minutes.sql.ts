import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Kind } from "../../records/owner.rules.ts";
import { sql } from "../../../db/sql.ts";
import { meterEventColumns, meterEventRow } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import type { Span } from "../usage.rules.ts";

/** A customer's live usage of one kind at Stripe; without a customer, usage of an account that was never sent. */
export type CustomerStream = {
  readonly kind: Kind;
  readonly customerId: string | null;
  readonly accountId: string;
};

/** The condition that an event is of a stream. Through the customer's index, or else the account's. */
export const isOfStream = ({ kind, customerId, accountId }: CustomerStream): FragmentSqlToken =>
  sql.fragment`
    meter_event.processor = 'stripe'
    AND meter_event.mode = 'live'
    AND meter_event.kind = ${kind}
    AND ${
      customerId === null
        ? sql.fragment`meter_event.account_id = ${accountId} AND meter_event.customer_id IS NULL`
        : sql.fragment`meter_event.customer_id = ${customerId}`
    }
  `;

/** Lists all events of a stream in a span, whichever account they belong to. */
export const listEventsOfSpan = (
  db: CommonQueryMethods,
  stream: CustomerStream,
  { start, end }: Span,
): Promise<readonly StoredMeterEvent[]> =>
  db.any(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE ${isOfStream(stream)} AND meter_event.second >= ${start} AND meter_event.second < ${end}
    ORDER BY meter_event.id
  `);

const customerRow = z.strictObject({ accountId: z.uuid(), customerId: z.string() });

/**
 * Lists the Stripe customers that may have usage of accounts: all that they have had. A lost history may have sent usage to any
 * of them.
 */
export const listPossibleCustomers = (
  db: CommonQueryMethods,
  accountIds: readonly string[],
): Promise<readonly Readonly<z.output<typeof customerRow>>[]> =>
  db.any(sql.type(customerRow)`
    SELECT account.id AS "accountId", customer.id AS "customerId"
    FROM account
    CROSS JOIN LATERAL unnest(account.stripe_customer_ids) AS customer (id)
    WHERE account.id = ANY(${sql.array([...accountIds], "uuid")})
  `);

const idRow = z.strictObject({ id: z.uuid() });

/** Lists the accounts that have one of some customers now. */
export const listAccountsWithCustomers = (
  db: CommonQueryMethods,
  customerIds: readonly string[],
): Promise<readonly string[]> =>
  db.anyFirst(sql.type(idRow)`
    SELECT id FROM account WHERE stripe_customer_id = ANY(${sql.array([...customerIds], "text")})
  `);
