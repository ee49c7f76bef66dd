import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { REGISTER_OPERATIONS } from "../records/idempotencyKeys.rules.ts";
import type { CustomerIdentity, KnownCustomer } from "./customers.rules.ts";
import { afterLookup, assignments, literals, safeInteger, sql, timestamp } from "../../db/sql.ts";
import { hasOnlyName, isOfCustomer, ofStore } from "./customers.sql.ts";
import { anyAccount, ownedBy } from "../records/ownedRecords.sql.ts";
import type { RecordOwner, RecordTable } from "../records/ownedRecords.sql.ts";
import { KINDS, MODES } from "../records/owner.rules.ts";

/** The customers of the registrations and donations for which a condition holds, as a table `record`. */
const customersOf = (
  condition: (table: RecordTable) => FragmentSqlToken,
  limit = sql.fragment``,
) => sql.fragment`(
  SELECT customer_id, customer_email, customer_name
  FROM registration
  WHERE ${condition("registration")}
  UNION ALL
  SELECT customer_id, customer_email, customer_name
  FROM donation
  WHERE ${condition("donation")}
  ${limit}
) AS record`;

const identityRow = z.strictObject({
  ids: z.array(z.string()),
  emails: z.array(z.string()),
  names: z.array(z.string()),
});

/** Returns the distinct ids, folded email addresses and folded names of a customer's records. */
export const readIdentities = (
  db: CommonQueryMethods,
  accountId: string,
  identity: CustomerIdentity,
) =>
  db.one(sql.type(identityRow)`
    SELECT
      coalesce(array_agg(DISTINCT trimmed_text(customer_id)) FILTER (WHERE customer_id IS NOT NULL), '{}') AS ids,
      coalesce(array_agg(DISTINCT folded_text(customer_email)) FILTER (WHERE customer_email IS NOT NULL), '{}') AS emails,
      coalesce(array_agg(DISTINCT folded_text(customer_name)) FILTER (WHERE customer_name IS NOT NULL), '{}') AS names
    FROM ${customersOf((table) => isOfCustomer(table, accountId, { ...identity, names: [] }))}
  `);

const emailRow = z.strictObject({ email: z.string() });

/**
 * Returns the email addresses, of the folded ones that are given, that no other customer id has.
 * @param maximumRecords an address of more records counts as shared, and no more of them are read
 */
export const listUnsharedEmails = (
  db: CommonQueryMethods,
  accountId: string,
  { ids, emails }: Pick<CustomerIdentity, "ids" | "emails">,
  maximumRecords: number,
) => {
  const hasEmail = (table: RecordTable) => sql.fragment`
    ${ofStore(table, anyAccount(accountId))} AND text_digest(folded_text(customer_email)) = text_digest(given.email)
  `;
  return db.anyFirst(sql.type(emailRow)`
    SELECT given.email
    FROM unnest(${sql.array([...emails], "text")}) AS given (email)
    CROSS JOIN LATERAL (
      SELECT
        count(*) AS records,
        count(*) FILTER (WHERE trimmed_text(customer_id) <> ALL(${sql.array([...ids], "text")})) AS others
      FROM ${customersOf(hasEmail, sql.fragment`LIMIT ${maximumRecords + 1}`)}
    ) AS found
    WHERE found.records <= ${maximumRecords} AND found.others = 0
  `);
};

const PAGE_RECORDS = 500;

type Selection = {
  readonly table: RecordTable;
  /** The condition of the page that follows a time. No two records of a store have the same one. */
  readonly pageAfter: (after: string | null) => FragmentSqlToken;
};

const TABLES = ["registration", "donation"] as const satisfies readonly RecordTable[];

/** Selects the records of an owner, in the order of creation. */
const ofOwner = (table: RecordTable, owner: RecordOwner): Selection => ({
  table,
  pageAfter: (after) => sql.fragment`
    ${ownedBy(table, owner)}
    AND created_at > ${timestamp(after ?? "-infinity")}
    ORDER BY created_at
  `,
});

/**
 * Selects a customer's records, or all of a store (null). Those with only a name come first: the others lead to the name if
 * the erasure is interrupted and repeated.
 */
export const recordsOf = (
  accountId: string,
  customer: KnownCustomer | null,
): readonly Selection[] => {
  if (customer !== null) {
    return [hasOnlyName, isOfCustomer].flatMap((condition) =>
      // Records that are blanked do not meet the condition any more.
      TABLES.map((table) => ({ table, pageAfter: () => condition(table, accountId, customer) })),
    );
  }
  return MODES.flatMap((mode) =>
    KINDS.map((kind) => ofOwner("registration", { accountId, mode, kind })).concat(
      ofOwner("donation", { accountId, mode }),
    ),
  );
};

/** The columns that an erasure sets to null. */
export const PERSONAL_COLUMNS: Readonly<Record<RecordTable, readonly string[]>> = {
  registration: ["customer_name", "customer_email", "customer_id", "order_id", "notes"],
  donation: ["customer_name", "customer_email", "customer_id", "order_id"],
};

export const namesCustomer = (table: RecordTable, alias: string = table) =>
  sql.fragment`(${sql.join(
    PERSONAL_COLUMNS[table].map(
      (column) => sql.fragment`${sql.identifier([alias, column])} IS NOT NULL`,
    ),
    sql.fragment` OR `,
  )})`;

export const REFUNDS = {
  registration: { table: "refund", record: "registration_id" },
  donation: { table: "donation_refund", record: "donation_id" },
} as const satisfies Record<RecordTable, object>;

const blankedRow = z.strictObject({ blanked: safeInteger, last: z.string().nullable() });
export type Blanked = Readonly<z.output<typeof blankedRow>>;

/**
 * Blanks a page of records. What was stored with them and their refunds has the same times: the responses, and the reasons
 * of their reversals, which can be of several customers.
 * @returns how many records had personal data, and the time of the last one of the page; null if there are no more
 */
export const blankPage = (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  { table, pageAfter }: Selection,
  after: string | null,
) => {
  const record = sql.identifier([table]);
  const refund = sql.identifier([REFUNDS[table].table]);
  const isOfWrite = sql.fragment`created_at = ANY(ARRAY(SELECT created_at FROM write))`;
  return transaction.one(sql.type(blankedRow)`
    WITH chosen AS MATERIALIZED (
      SELECT id, created_at
      FROM ${record}
      WHERE ${pageAfter(after)}
      LIMIT ${PAGE_RECORDS}
      FOR UPDATE
    ),
    write AS MATERIALIZED (
      SELECT created_at FROM chosen
      UNION
      SELECT refund.created_at
      FROM chosen
      CROSS JOIN LATERAL (
        SELECT created_at FROM ${refund} WHERE ${sql.identifier([REFUNDS[table].record])} = chosen.id OFFSET 0
      ) AS refund
    ),
    blanked AS (
      UPDATE ${record}
      SET ${assignments(Object.fromEntries(PERSONAL_COLUMNS[table].map((name) => [name, null])))}
      FROM chosen
      WHERE ${record}.id = chosen.id AND ${namesCustomer(table)}
      RETURNING ${record}.id
    ),
    reason AS (
      UPDATE ${refund}
      SET reason = NULL
      WHERE account_id = ${anyAccount(accountId)} AND ${isOfWrite} AND reason IS NOT NULL
    ),
    response AS (
      UPDATE idempotency_key
      SET
        request_hash = NULL,
        response_body = CASE WHEN operation IN (${literals(Object.values(REGISTER_OPERATIONS))}) THEN NULL ELSE response_body END
      WHERE ${isOfWrite} AND request_hash IS NOT NULL AND ${afterLookup(sql.fragment`account_id = ${accountId}`)}
    )
    SELECT (SELECT count(*) FROM blanked) AS blanked, (SELECT max(created_at)::text FROM chosen) AS last
  `);
};
