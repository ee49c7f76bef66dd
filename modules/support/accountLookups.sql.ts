import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { MODES } from "../records/owner.rules.ts";
import { KEY_SCOPES } from "../accounts/apiKeys.rules.ts";
import { modeColumn, accountTypeColumn } from "../records/columns.sql.ts";
import { columnsOf, sql, values } from "../../db/sql.ts";
import { METER_EVENT } from "./lookup.rules.ts";
import type { Lookup } from "./lookup.rules.ts";
import type { Operation } from "../records/idempotencyKeys.rules.ts";
import { keyHash } from "../records/idempotencyKeys.sql.ts";

/** What every look-up takes. */
export type LookupOptions = {
  readonly text: string;
  /** Null looks in all accounts. */
  readonly accountId: string | null;
  readonly limit: number;
};

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

export const inAccount = (accountId: string | null): FragmentSqlToken =>
  accountId === null ? sql.fragment`true` : sql.fragment`account.id = ${accountId}`;

const eventRow = z.strictObject({ id: z.bigint() });

/** Finds a meter event by its number or its identifier. */
export const findMeterEventId = (
  db: CommonQueryMethods,
  { text, accountId }: LookupOptions,
): Promise<bigint | null> => {
  const id = METER_EVENT.exec(text)?.groups?.["id"];
  return db.maybeOneFirst(sql.type(eventRow)`
    SELECT meter_event.id
    FROM meter_event
    JOIN account ON account.id = meter_event.account_id
    WHERE ${id === undefined ? sql.fragment`meter_event.identifier = ${text}` : sql.fragment`meter_event.id = ${id}::bigint`}
      AND ${inAccount(accountId)}
  `);
};

const accountRow = z.strictObject({
  ...accountFields,
  foundBy: z.string(),
  stripeCustomerId: z.string().nullable(),
});
type FoundAccount = Readonly<z.output<typeof accountRow>>;

const startsWith = (id: FragmentSqlToken, { id: whole, idPrefix }: Lookup): FragmentSqlToken =>
  sql.fragment`starts_with(${id}::text, ${whole ?? idPrefix})`;

/** Finds accounts by their ids, Stripe customers, names or domains, or parts of these. There are few enough to read them all. */
export const listFoundAccounts = (
  db: CommonQueryMethods,
  lookup: Lookup,
  { text, accountId, limit }: LookupOptions,
): Promise<readonly FoundAccount[]> =>
  db.any(sql.type(accountRow)`
    SELECT ${accountColumns}, found.by AS "foundBy", account.stripe_customer_id AS "stripeCustomerId"
    FROM account
    LEFT JOIN store ON store.account_id = account.id
    CROSS JOIN LATERAL (
      SELECT CASE
        WHEN ${startsWith(sql.fragment`account.id`, lookup)} THEN 'id'
        WHEN account.stripe_customer_id = ${text} THEN 'stripe_customer'
        WHEN ${lookup.mayBeName} AND strpos(store.domain, lower(${text})) > 0 THEN 'domain'
        WHEN ${lookup.mayBeName} AND strpos(folded_text(account.name), folded_text(${text})) > 0 THEN 'name'
      END AS by
    ) AS found
    WHERE found.by IS NOT NULL AND ${inAccount(accountId)}
    ORDER BY account.name, account.id
    LIMIT ${limit}
  `);

/** So many characters of a key tell it from most others. Of an imported key, fewer are stored. */
const KEY_CHARACTERS = 8;

const keyColumns = z.strictObject({
  id: z.uuid(),
  mode: modeColumn,
  name: z.string(),
  scope: z.enum(KEY_SCOPES),
  hint: z.string(),
  createdAt: z.date(),
  expiresAt: z.date().nullable(),
  lastUsedAt: z.date().nullable(),
  revokedAt: z.date().nullable(),
});
const keyRow = z.strictObject({ ...accountFields, foundBy: z.string(), ...keyColumns.shape });
type FoundKey = Readonly<z.output<typeof keyRow>>;

/** Finds API keys by their ids, or by the characters with which they begin. */
export const listFoundKeys = (
  db: CommonQueryMethods,
  lookup: Lookup,
  { text, accountId, limit }: LookupOptions,
): Promise<readonly FoundKey[]> =>
  db.any(sql.type(keyRow)`
    SELECT ${accountColumns}, found.by AS "foundBy", ${columnsOf("api_key", keyColumns)}
    FROM api_key
    JOIN account ON account.id = api_key.account_id
    CROSS JOIN LATERAL (
      SELECT CASE
        WHEN ${startsWith(sql.fragment`api_key.id`, lookup)} THEN 'id'
        WHEN api_key.hint = ${text} THEN 'key'
        WHEN ${text.length >= KEY_CHARACTERS} AND starts_with(api_key.hint, ${text}) THEN 'key'
        WHEN length(api_key.hint) >= ${KEY_CHARACTERS} AND starts_with(${text}, api_key.hint) THEN 'key'
      END AS by
    ) AS found
    WHERE found.by IS NOT NULL AND ${inAccount(accountId)}
    ORDER BY api_key.created_at DESC, api_key.id
    LIMIT ${limit}
  `);

/** A query of the rows of an idempotency key. Costs a search for each account, mode and operation. */
export const knownKeysOf = (
  operations: readonly Operation[],
  { text, accountId }: Pick<LookupOptions, "text" | "accountId">,
): FragmentSqlToken => sql.fragment`
  SELECT known.*
  FROM account
  CROSS JOIN ${values(MODES)} AS mode
  CROSS JOIN ${values(operations)} AS operation
  CROSS JOIN LATERAL (
    SELECT *
    FROM idempotency_key
    WHERE key_hash = ${keyHash(
      {
        accountId: sql.identifier(["account", "id"]),
        mode: sql.identifier(["mode", "mode"]),
        operation: sql.identifier(["operation", "operation"]),
      },
      sql.fragment`${text}::text`,
    )}
    LIMIT 1
  ) AS known
  WHERE ${inAccount(accountId)}
`;
