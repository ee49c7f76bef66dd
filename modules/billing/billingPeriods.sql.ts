import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Kind } from "../records/owner.rules.ts";
import type { Period } from "./usage.rules.ts";
import { kindColumn } from "../records/columns.sql.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import { sql, timestamp } from "../../db/sql.ts";

const payerRow = z.strictObject({
  accountId: z.uuid(),
  kind: kindColumn,
  billingDay: z.int(),
  stripeCustomerId: z.string().nullable(),
  stripeSubscriptionId: z.string().nullable(),
  period: z
    .strictObject({ start: z.coerce.date(), end: z.coerce.date(), readAt: z.coerce.date() })
    .nullable(),
});

/** Returns who pays for usage, and the latest billing period that Stripe has reported of their subscriptions. */
export const listPayers = (
  db: CommonQueryMethods,
  streams: readonly { readonly accountId: string; readonly kind: Kind }[],
) =>
  db.any(sql.prepared("list_payers", payerRow)`
    SELECT
      account.id AS "accountId",
      stream.kind,
      account.billing_day AS "billingDay",
      account.stripe_customer_id AS "stripeCustomerId",
      account.stripe_subscription_id AS "stripeSubscriptionId",
      (
        SELECT json_build_object('start', starts_at, 'end', ends_at, 'readAt', read_at)
        FROM billing_period
        WHERE account_id = account.id AND kind = stream.kind AND subscription_id = account.stripe_subscription_id
        ORDER BY starts_at DESC
        LIMIT 1
      ) AS period
    FROM (${jsonRows({ accountId: "uuid", kind: "text" }, streams)}) AS stream
    JOIN account ON account.id = stream.account_id
  `);

const accountPeriodRow = z.strictObject({ kind: kindColumn, start: z.date(), end: z.date() });

/** Lists the billing periods that Stripe has returned for an account, also of earlier subscriptions, newest first. */
export const listBillingPeriods = (db: CommonQueryMethods, accountId: string) =>
  db.any(sql.prepared("list_billing_periods", accountPeriodRow)`
    SELECT kind, starts_at AS start, ends_at AS "end"
    FROM billing_period
    WHERE account_id = ${accountId}
    ORDER BY starts_at DESC
  `);

/**
 * Stores a period. Earlier periods stay; one that a change of the billing day has cut short ends where the new one starts. The
 * subscription's state must be stored before: that makes the transactions of an account wait for each other.
 */
export const saveBillingPeriod = async (
  transaction: DatabaseTransactionConnection,
  { accountId, subscriptionId }: { readonly accountId: string; readonly subscriptionId: string },
  kind: Kind,
  { start, end, readAt }: Period & { readonly readAt: Date },
): Promise<void> => {
  const startsAt = timestamp(start);
  const own = sql.fragment`account_id = ${accountId} AND kind = ${kind} AND subscription_id = ${subscriptionId}`;
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM billing_period
    WHERE ${own} AND starts_at >= ${startsAt}
  `);
  await transaction.query(sql.typeAlias("void")`
    UPDATE billing_period
    SET ends_at = ${startsAt}
    WHERE ${own} AND ends_at > ${startsAt}
  `);
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO billing_period (account_id, kind, subscription_id, starts_at, ends_at, read_at)
    VALUES (${accountId}, ${kind}, ${subscriptionId}, ${startsAt}, ${timestamp(end)}, ${timestamp(readAt)})
  `);
};
