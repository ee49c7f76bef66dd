import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { apiKeyRow } from "../accounts/apiKeys.sql.ts";
import { accountTypeColumn } from "../records/columns.sql.ts";
import { columnsOf, sql } from "../../db/sql.ts";
import type { Lookup } from "./lookup.rules.ts";

export const accountFields = {
  accountId: z.uuid(),
  accountName: z.string(),
  accountType: accountTypeColumn,
};

export const accountColumns = sql.fragment`
  account.id AS "accountId",
  account.name AS "accountName",
  account.type AS "accountType"
`;

export const inAccount = (accountId: string | null) =>
  accountId === null ? sql.fragment`true` : sql.fragment`account.id = ${accountId}`;

const eventRow = z.strictObject({ id: z.bigint() });

export const isMeterEvent = (event: NonNullable<Lookup["meterEvent"]>) =>
  "id" in event
    ? sql.fragment`meter_event.id = ${event.id}::bigint`
    : sql.fragment`meter_event.identifier = ${event.identifier}`;

export const findMeterEventId = (
  db: CommonQueryMethods,
  event: NonNullable<Lookup["meterEvent"]>,
  accountId: string | null,
) =>
  db.maybeOneFirst(sql.type(eventRow)`
    SELECT meter_event.id
    FROM meter_event
    JOIN account ON account.id = meter_event.account_id
    WHERE ${isMeterEvent(event)} AND ${inAccount(accountId)}
  `);

const accountRow = z.strictObject({
  ...accountFields,
  foundBy: z.string(),
  stripeCustomerId: z.string().nullable(),
});

/** Finds accounts by their ids, Stripe customers, names or domains, or parts of these. There are few enough to read them all. */
export const listFoundAccounts = (
  db: CommonQueryMethods,
  { text, accountId, limit, mayBeName, id }: Lookup,
) =>
  db.any(sql.type(accountRow)`
    SELECT ${accountColumns}, found.by AS "foundBy", account.stripe_customer_id AS "stripeCustomerId"
    FROM account
    LEFT JOIN store ON store.account_id = account.id
    CROSS JOIN LATERAL (
      SELECT CASE
        WHEN account.id = ${id}::uuid THEN 'id'
        WHEN account.stripe_customer_id = ${text} THEN 'stripe_customer'
        WHEN ${mayBeName} AND strpos(store.domain, lower(${text})) > 0 THEN 'domain'
        WHEN ${mayBeName} AND strpos(folded_text(account.name), folded_text(${text})) > 0 THEN 'name'
      END AS by
    ) AS found
    WHERE found.by IS NOT NULL AND ${inAccount(accountId)}
    ORDER BY account.name, account.id
    LIMIT ${limit}
  `);

/** So many characters of a key tell it from most others. Of an imported key, fewer are stored. */
const KEY_CHARACTERS = 8;

const keyColumns = apiKeyRow.omit({ accountId: true, digest: true });
const keyRow = z.strictObject({ ...accountFields, foundBy: z.string(), ...keyColumns.shape });

/** Finds API keys by their ids, or by the characters with which they begin. */
export const listFoundKeys = (db: CommonQueryMethods, { text, accountId, limit, id }: Lookup) =>
  db.any(sql.type(keyRow)`
    SELECT ${accountColumns}, found.by AS "foundBy", ${columnsOf("api_key", keyColumns)}
    FROM api_key
    JOIN account ON account.id = api_key.account_id
    CROSS JOIN LATERAL (
      SELECT CASE
        WHEN api_key.id = ${id}::uuid THEN 'id'
        WHEN api_key.hint = ${text} THEN 'key'
        WHEN ${text.length >= KEY_CHARACTERS} AND starts_with(api_key.hint, ${text}) THEN 'key'
        WHEN length(api_key.hint) >= ${KEY_CHARACTERS} AND starts_with(${text}, api_key.hint) THEN 'key'
      END AS by
    ) AS found
    WHERE found.by IS NOT NULL AND ${inAccount(accountId)}
    ORDER BY api_key.created_at DESC, api_key.id
    LIMIT ${limit}
  `);
