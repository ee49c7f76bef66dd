import type { CommonQueryMethods, FragmentSqlToken, ListSqlToken } from "slonik";
import { z } from "zod";
import { isUuid } from "../records/fields.rules.ts";
import { KINDS } from "../records/owner.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { keyHash, recordOfKey, registerOperation } from "../records/idempotencyKeys.sql.ts";
import {
  importedRecord,
  importScopeOf,
  isFoundOwn,
  isImported,
} from "../records/ownedRecords.sql.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import { PERSONAL_COLUMNS, namesCustomer } from "../stores/personalData.sql.ts";
import { afterLookup, inMicroseconds, sql, literals } from "../../db/sql.ts";
import type { ImportedRecord } from "./importedRecords.rules.ts";
import type { ImportOwner } from "./importedRecords.rules.ts";

/** A record to import, with the id derived from its identity or content. */
export type ImportedEntry<Imported> = { readonly id: string; readonly record: Imported };

/** A column of records: its name, its type in PostgreSQL, and its value. */
export type RecordColumn<Imported> = readonly [
  name: string,
  type: string,
  valueOf: (record: Imported) => unknown,
];

const RECORD_COLUMNS: readonly RecordColumn<ImportedRecord>[] = [
  ["imported_id", "text", ({ importedId }) => importedId],
  ["created_at", "timestamptz", ({ createdAt }) => createdAt],
  ["attribution", "text", ({ attribution }) => attribution],
  ["metadata", "jsonb", ({ metadata }) => metadata],
  ["customer_name", "text", ({ customerName }) => customerName],
  ["customer_email", "text", ({ customerEmail }) => customerEmail],
  ["customer_id", "text", ({ customerId }) => customerId],
  ["order_id", "text", ({ orderId }) => orderId],
];

/** Returns the imported id if it can be the id of a record of this service. */
const uuidOrNull = ({ importedId }: ImportedRecord): string | null =>
  importedId !== null && isUuid(importedId) ? importedId : null;

/**
 * Returns the rows of a batch, with their places in it and their keys, and the columns in which they are stored. A store's
 * records do not have their keys: these may name customers, and an erasure leaves only their hashes.
 * @param ownColumns those that other records do not have
 */
export const entryRows = <Imported extends ImportedRecord>(
  { isStore }: ImportOwner,
  batch: readonly ImportedEntry<Imported>[],
  ownColumns: readonly RecordColumn<Imported>[],
): { readonly entries: FragmentSqlToken; readonly columns: ListSqlToken } => {
  const keyColumn: RecordColumn<Imported> = [
    "idempotency_key",
    "text",
    ({ idempotencyKey }) => (isStore ? null : idempotencyKey),
  ];
  const columns = [...RECORD_COLUMNS, keyColumn, ...ownColumns];
  const rows = batch.map(({ id, record }) => ({
    id,
    own_id: uuidOrNull(record),
    key: record.idempotencyKey,
    ...Object.fromEntries(columns.map(([name, , valueOf]) => [name, valueOf(record)])),
  }));
  const types = columns.map(
    ([name, type]) => sql.fragment`${sql.identifier([name])} ${sql.identifier([type])}`,
  );
  return {
    entries: sql.fragment`
      SELECT *, ordinality AS place
      FROM ROWS FROM (
        jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
          AS (id uuid, own_id uuid, key text, ${sql.join(types, sql.fragment`, `)})
      ) WITH ORDINALITY
    `,
    columns: sql.join(
      ["id", ...columns.map(([name]) => name)].map((name) => sql.identifier([name])),
      sql.fragment`, `,
    ),
  };
};

export const idRow = z.strictObject({ id: z.uuid() });

const knownRow = z.strictObject({
  place: z.int(),
  id: z.uuid(),
  differences: z.array(z.string()),
  hasFurtherRefund: z.boolean(),
});

/** A recorded record that has the id or the key of a batch's entry. */
export type KnownRecord = {
  readonly place: number;
  /** The id of the record. */
  readonly id: string;
  /** The fields in which it differs from the entry. */
  readonly differences: readonly string[];
  /** Whether it was imported, and differs only by units that were refunded in the other system since. */
  readonly hasFurtherRefund: boolean;
};

const timeRow = z.strictObject({ createdAt: z.string() });

/** Returns those of the times, in microseconds, that records of a store have. */
export const listTakenTimes = (
  db: CommonQueryMethods,
  { accountId, mode }: AccountMode,
  times: readonly string[],
): Promise<readonly string[]> => {
  const isTaken = sql.fragment`
    account_id = ${accountId} AND mode = ${mode} AND created_at = ANY(${sql.array([...times], "timestamptz")})
  `;
  return db.anyFirst(sql.type(timeRow)`
    SELECT ${inMicroseconds(sql.fragment`created_at`)} AS "createdAt"
    FROM (
      SELECT created_at FROM registration WHERE ${isTaken} AND kind IN (${literals(KINDS)})
      UNION ALL
      SELECT created_at FROM donation WHERE ${isTaken}
    ) AS taken
  `);
};

/** The fields of all kinds, in the order in which differences are reported after the own ones of a kind. */
const COMMON_COLUMNS = [
  "created_at",
  "attribution",
  "metadata",
  "customer_name",
  "customer_email",
  "customer_id",
  "order_id",
] as const;

/** The condition that a record's time may be that of the entry: imported times of a store become unique. */
const isSpread = ({ isStore }: ImportOwner): FragmentSqlToken => sql.fragment`(
  ${isStore} AND known.created_at > entry.created_at AND known.created_at < entry.created_at + interval '1 second'
)`;

/** The operation of an entry. */
const operationOf = (table: RecordTable): FragmentSqlToken =>
  table === "donation"
    ? sql.fragment`'donate'`
    : registerOperation(sql.identifier(["entry", "kind"]));

/** The hash of an entry's idempotency key; null if it has none. */
const entryKeyHash = (table: RecordTable, { accountId, mode }: AccountMode): FragmentSqlToken =>
  keyHash(
    {
      accountId: sql.fragment`${accountId}::uuid`,
      mode: sql.fragment`${mode}::text`,
      operation: operationOf(table),
    },
    sql.identifier(["entry", "key"]),
  );

/**
 * The condition that neither a record with the id of an entry exists, nor its key.
 *
 * An own id is looked up by nothing else, entry by entry. While the planner has no statistics of what was just imported,
 * with a join or a condition on the account it may read all records of the account.
 */
export const isNew = (table: RecordTable, owner: AccountMode): FragmentSqlToken => {
  const name = sql.identifier([table]);
  const isOfKind =
    table === "donation" ? sql.fragment`true` : sql.fragment`registration.kind = entry.kind`;
  return sql.fragment`
    (
      SELECT ${name}.account_id = ${owner.accountId}::uuid AND ${name}.mode = ${owner.mode} AND ${isOfKind}
      FROM ${name}
      WHERE ${name}.id = entry.own_id
    ) IS NOT TRUE
    AND NOT EXISTS (SELECT FROM idempotency_key WHERE key_hash = ${entryKeyHash(table, owner)})
  `;
};

/**
 * Stores the keys of the records of the query `inserted`. Fails if a key is in use: it was used since the statement began, and
 * its record would be recorded twice.
 */
export const insertKeys = (
  table: RecordTable,
  owner: AccountMode,
): FragmentSqlToken => sql.fragment`
  INSERT INTO idempotency_key (key_hash, account_id, mode, operation, record_id)
  SELECT
    ${entryKeyHash(table, owner)} AS key_hash, ${owner.accountId}::uuid, ${owner.mode},
    ${operationOf(table)}, entry.id
  FROM inserted
  JOIN entry ON entry.id = inserted.id
  WHERE entry.key IS NOT NULL
  ORDER BY key_hash
  RETURNING key_hash
`;

/** A record without personal data may have been erased, so the data of the entry are no difference. */
const difference = (table: RecordTable, owner: ImportOwner, column: string): FragmentSqlToken => {
  const isCompared = PERSONAL_COLUMNS[table].includes(column)
    ? namesCustomer(table, "known")
    : sql.fragment`${column !== "created_at"} OR NOT ${isSpread(owner)}`;
  return sql.fragment`
    CASE
      WHEN known.${sql.identifier([column])} IS DISTINCT FROM entry.${sql.identifier([column])} AND (${isCompared})
        THEN ${column}::text
    END
  `;
};

/** A record has the key of the entry if it is the record of that key; a key here that the entry lacks differs, too. */
const keyDifference = (table: RecordTable, owner: AccountMode): FragmentSqlToken => sql.fragment`
  CASE
    WHEN entry.key IS NULL AND known.idempotency_key IS NOT NULL
      OR entry.key IS NOT NULL AND ${recordOfKey(entryKeyHash(table, owner))} IS DISTINCT FROM known.id
      THEN 'idempotency_key'
  END
`;

/**
 * Lists the records of a table that have the ids or keys of a batch.
 * @param kind that of an entry; null for records without one
 * @param columns the fields that only this table has
 * @param refund the difference by refunds: null, or `further` if the entry has more of them, or why it cannot be applied
 */
export const listKnown = (
  db: CommonQueryMethods,
  table: RecordTable,
  {
    entries,
    owner,
    kind,
    columns,
    refund,
  }: {
    readonly entries: FragmentSqlToken;
    readonly owner: ImportOwner;
    readonly kind: FragmentSqlToken | null;
    readonly columns: readonly string[];
    readonly refund: { readonly field: string; readonly difference: FragmentSqlToken };
  },
): Promise<readonly KnownRecord[]> => {
  const name = sql.identifier([table]);
  const differences = sql.join(
    [...columns, ...COMMON_COLUMNS].map((column) => difference(table, owner, column)),
    sql.fragment`, `,
  );
  return db.any(sql.type(knownRow)`
    WITH entry AS MATERIALIZED (${entries}),
    compared AS (
      SELECT
        entry.place::integer - 1 AS place,
        known.id,
        array_remove(
          ARRAY[
            CASE WHEN coalesce(known.imported_id, known.id::text) <> entry.imported_id THEN 'id' END,
            ${differences},
            ${keyDifference(table, owner)}
          ],
          NULL
        ) AS others,
        ${refund.difference} AS refund
      FROM entry
      CROSS JOIN LATERAL (
        SELECT id
        FROM ${name}
        WHERE ${name}.id = ANY(ARRAY[entry.id, entry.own_id])
          AND ${isFoundOwn(table, owner)}
          ${kind === null ? sql.fragment`` : sql.fragment`AND ${afterLookup(sql.fragment`${name}.kind = ${kind}`)}`}
        UNION
        SELECT ${importedRecord(table, { ...importScopeOf(table, owner), ...(kind && { kind }) }, sql.fragment`entry.imported_id`)}
        UNION
        SELECT ${recordOfKey(entryKeyHash(table, owner))}
      ) AS match
      JOIN ${name} AS known ON known.id = match.id
    )
    SELECT
      place,
      id,
      CASE
        WHEN refund IS NULL THEN others
        WHEN refund = 'further' THEN others || ${refund.field}::text
        ELSE others || (${refund.field}::text || ' (' || refund || ')')
      END AS differences,
      refund IS NOT DISTINCT FROM 'further' AND others = '{}' AND ${isImported(sql.fragment`id`)} AS "hasFurtherRefund"
    FROM compared
  `);
};
