import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { SUBSCRIPTION_POLICIES, CHARITY_PROVIDERS } from "./accounts.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { accountTypeColumn } from "../records/columns.sql.ts";
import { violates } from "../../db/databaseErrors.ts";
import { assignmentsOf, columnsOf, sql, timestamp } from "../../db/sql.ts";

export const accountRow = z.strictObject({
  id: z.uuid(),
  type: accountTypeColumn,
  name: z.string(),
  fractionalCounting: z.boolean(),
  billingDay: z.int(),
  stripeCustomerId: z.string().nullable(),
  stripeSubscriptionId: z.string().nullable(),
  charityProvider: z.enum(CHARITY_PROVIDERS),
  subscriptionPolicy: z.enum(SUBSCRIPTION_POLICIES),
  createdAt: z.date(),
});
export type Account = Readonly<z.output<typeof accountRow>>;

export const accountColumns = columnsOf("account", accountRow);

export const findAccount = (db: CommonQueryMethods, id: string) =>
  db.maybeOne(sql.prepared("find_account", accountRow)`
    SELECT ${accountColumns} FROM account WHERE id = ${id}
  `);

const stripeCustomerRow = accountRow.pick({ id: true, stripeCustomerId: true });

/** Returns the accounts' Stripe customers; null for an account without one. */
export const listStripeCustomerIds = async (db: CommonQueryMethods, ids: readonly string[]) => {
  const rows = await db.any(sql.type(stripeCustomerRow)`
    SELECT ${columnsOf("account", stripeCustomerRow)}
    FROM account
    WHERE id = ANY(${sql.array([...ids], "uuid")})
  `);
  return new Map(rows.map(({ id, stripeCustomerId }) => [id, stripeCustomerId]));
};

export const listOrganizations = (db: CommonQueryMethods) =>
  db.any(sql.type(accountRow)`
    SELECT ${accountColumns}
    FROM account
    WHERE type = 'organization'
    ORDER BY created_at, id
  `);

/**
 * Lists the accounts that have one of the names, whatever the case of its letters, or that have had a Stripe customer with
 * it. The name of a store is its domain.
 */
export const listAccountsNamed = (db: CommonQueryMethods, names: readonly string[]) =>
  db.any(sql.type(accountRow)`
    SELECT ${accountColumns}
    FROM account
    CROSS JOIN (VALUES (${sql.array([...names], "text")})) AS given (names)
    WHERE lower(name) IN (SELECT lower(each) FROM unnest(given.names) AS each)
      OR stripe_customer_ids && given.names
    ORDER BY created_at, id
  `);

/** Inserts an account, which has the default settings until they are changed. */
export const insertAccount = (
  db: CommonQueryMethods,
  { id, type, name, createdAt }: Pick<Account, "id" | "type" | "name" | "createdAt">,
) =>
  db.query(sql.typeAlias("void")`
    INSERT INTO account (id, type, name, created_at)
    VALUES (${id}, ${type}, ${name}, ${timestamp(createdAt)})
  `);

/** The settings of an account that an operator can change; absent ones stay. */
export type AccountChanges = Partial<Omit<Account, "id" | "type" | "createdAt">>;

/** @throws DomainError request_invalid if another account has the same Stripe customer */
export const updateAccount = async (
  db: CommonQueryMethods,
  id: string,
  changes: AccountChanges,
) => {
  const { stripeCustomerId } = changes;
  const assignments = assignmentsOf({
    ...changes,
    ...(typeof stripeCustomerId === "string" && {
      stripeCustomerIds: sql.fragment`
        array_remove(stripe_customer_ids, ${stripeCustomerId}) || ${sql.array([stripeCustomerId], "text")}
      `,
    }),
  });
  if (assignments === null) {
    return;
  }
  try {
    await db.query(sql.typeAlias("void")`
      UPDATE account SET ${assignments} WHERE id = ${id}
    `);
  } catch (error) {
    throw violates(error, "account_stripe_customer")
      ? invalidRequest(
          "the Stripe customer belongs to another account; each account needs its own",
          { cause: error },
        )
      : error;
  }
};
