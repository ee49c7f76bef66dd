import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { REGISTER_OPERATIONS } from "./idempotencyKeys.rules.ts";
import type { Operation } from "./idempotencyKeys.rules.ts";
import { knownKeys } from "./idempotencyKeys.sql.ts";
import { KINDS, MODES } from "./owner.rules.ts";
import type { AccountMode, Kind } from "./owner.rules.ts";
import { isUuid } from "./fields.rules.ts";
import { isRecordId } from "./recordIds.rules.ts";
import { sql } from "../../db/sql.ts";

/*
 * The records of an owner: all of them, and those with an id or a key.
 *
 * The planner has no statistics of an account that is newer than they are, and takes it for one without records. To read
 * all of them then seems as cheap as to find one by its id or key, however many there are. The conditions of look-ups do
 * not leave the planner this choice (ADR 102).
 */

export type RecordTable = "registration" | "donation";

export type RecordOwners = {
  readonly registration: AccountMode & { readonly kind: Kind };
  readonly donation: AccountMode;
};

/** The condition that a record belongs to an owner. For lists, of which the planner must know how long they are. */
export const ownedBy = <Table extends RecordTable>(
  table: Table,
  owner: RecordOwners[Table],
): FragmentSqlToken => {
  const { accountId, mode, kind }: AccountMode & { readonly kind?: Kind } = owner;
  const name = sql.identifier([table]);
  const ofMode = sql.fragment`${name}.account_id = ${accountId} AND ${name}.mode = ${mode}`;
  return table === "registration" && kind !== undefined
    ? sql.fragment`${ofMode} AND registration.kind = ${kind}`
    : ofMode;
};

/** An account's id as a value that the planner does not see. It expects an average account. */
export const anyAccount = (accountId: string): FragmentSqlToken =>
  sql.fragment`(SELECT ${accountId}::uuid)`;

/** The highest value of a `bigint`. No row has it as its id. */
const AFTER_LAST_ID = "9223372036854775807";

/**
 * The condition and the order of the rows of an account, or of all (null), the newest first, in a table with an index of the
 * account and the row's id. With an equality, the primary key seems cheaper than this index for an account with a few percent
 * of the rows. Then all rows that other accounts have added since would be read first.
 * @param before only rows with a lower id; null for all
 */
export const newestOf = (
  accountId: string | null,
  before: string | null,
): { readonly condition: FragmentSqlToken; readonly order: FragmentSqlToken } => {
  const bound = sql.fragment`(SELECT ${before ?? AFTER_LAST_ID}::bigint)`;
  return accountId === null
    ? { condition: sql.fragment`id < ${bound}`, order: sql.fragment`ORDER BY id DESC` }
    : {
        condition: sql.fragment`
          (account_id, id) < (${anyAccount(accountId)}, ${bound}) AND account_id >= ${anyAccount(accountId)}
        `,
        order: sql.fragment`ORDER BY account_id DESC, id DESC`,
      };
};

/** The condition that a record belongs to an account and mode, for look-ups: the planner sees neither. */
export const isOfMode = (
  table: RecordTable,
  { accountId, mode }: AccountMode,
): FragmentSqlToken => {
  const name = sql.identifier([table]);
  return sql.fragment`${name}.account_id = ${anyAccount(accountId)} AND ${name}.mode = (SELECT ${mode}::text)`;
};

/** An owner's kind as a value that the planner does not see; null for records without one. */
const kindOf = <Table extends RecordTable>(
  table: Table,
  owner: RecordOwners[Table],
): FragmentSqlToken | null => {
  const { kind }: AccountMode & { readonly kind?: Kind } = owner;
  return table === "registration" && kind !== undefined
    ? sql.fragment`(SELECT ${kind}::text)`
    : null;
};

/** The condition that a record belongs to an owner, for look-ups. */
export const isOwn = <Table extends RecordTable>(
  table: Table,
  owner: RecordOwners[Table],
): FragmentSqlToken => {
  const kind = kindOf(table, owner);
  return kind === null
    ? isOfMode(table, owner)
    : sql.fragment`${isOfMode(table, owner)} AND registration.kind = ${kind}`;
};

/** The condition that a record was imported. The ids of imported records are UUIDs of version 8; see `assignIds`. */
export const isImported = (id: FragmentSqlToken): FragmentSqlToken =>
  sql.fragment`substr(${id}::text, 15, 1) = '8'`;

/** The rows with an id, as a table of the same name. The OFFSET keeps other conditions, and so other indexes, out of its search. */
export const rowWithId = (table: RecordTable, id: FragmentSqlToken): FragmentSqlToken => {
  const name = sql.identifier([table]);
  return sql.fragment`(SELECT * FROM ${name} WHERE ${name}.id = ${id} OFFSET 0) AS ${name}`;
};

/** The condition that a record has an attribution that is not empty, in the form that its index serves. */
export const hasAttribution = (table: RecordTable, attribution: string): FragmentSqlToken => {
  const column = sql.identifier([table, "attribution"]);
  return sql.fragment`text_digest(${column}) = text_digest(${attribution}) AND ${column} <> ''`;
};

/** The condition of a list by attribution; an empty one selects the records without any. */
export const attributionCondition = (table: RecordTable, attribution: string): FragmentSqlToken =>
  attribution === ""
    ? sql.fragment`${sql.identifier([table, "attribution"])} = ''`
    : hasAttribution(table, attribution);

/**
 * The record that was imported with an id, as a table of the same name. Both of its bounds are the id, in the order of the index
 * of such ids. With equalities, any index that begins with the account could find it, and without statistics of the table
 * they cost the same.
 * @param kind null for records without one
 * @param id not NULL
 */
export const rowWithImportedId = (
  table: RecordTable,
  { accountId, mode }: AccountMode,
  kind: FragmentSqlToken | null,
  id: FragmentSqlToken,
): FragmentSqlToken => {
  const name = sql.identifier([table]);
  const scope = sql.fragment`${anyAccount(accountId)}, (SELECT ${mode}::text)`;
  const [columns, values] =
    kind === null
      ? [sql.fragment`account_id, mode, imported_id`, sql.fragment`${scope}, ${id}`]
      : [sql.fragment`account_id, mode, kind, imported_id`, sql.fragment`${scope}, ${kind}, ${id}`];
  return sql.fragment`(
    SELECT *
    FROM ${name}
    WHERE (${columns}) >= (${values}) AND (${columns}) <= (${values}) AND imported_id IS NOT NULL
    ORDER BY ${columns}
    LIMIT 1
  ) AS ${name}`;
};

/** The condition that a record of the owner has an id: its own, or the one that it was imported with. */
export const ownedWithId = <Table extends RecordTable>(
  table: Table,
  owner: RecordOwners[Table],
  id: string,
): FragmentSqlToken => {
  const name = sql.identifier([table]);
  // The text is the same for every id, so that statements with it can be prepared. No record was imported with an empty one.
  const imported = isRecordId(id) ? id : "";
  const own = isUuid(id) ? id : null;
  return sql.fragment`${name}.id = ANY(ARRAY(
    SELECT id FROM ${rowWithImportedId(table, owner, kindOf(table, owner), sql.fragment`${imported}::text`)}
    UNION ALL
    SELECT id FROM ${rowWithId(table, sql.fragment`${own}::uuid`)} WHERE ${isOwn(table, owner)}
  ))`;
};

/**
 * The records of the owner with ids of their own, as a table, and conditions that others can follow. The planner does not see
 * the ids, so that a prepared statement keeps its plan whatever their number.
 */
export const ownedWithIds = <Table extends RecordTable>(
  table: Table,
  owner: RecordOwners[Table],
  ids: readonly string[],
): FragmentSqlToken => sql.fragment`
  unnest((SELECT ${sql.array([...ids], "uuid")})) AS given (id)
  CROSS JOIN LATERAL ${rowWithId(table, sql.fragment`given.id`)}
  WHERE ${isOwn(table, owner)}
`;

/** The records of the owner that were imported with these ids, as a table. */
export const ownedWithImportedIds = <Table extends RecordTable>(
  table: Table,
  owner: RecordOwners[Table],
  ids: readonly string[],
): FragmentSqlToken => sql.fragment`
  unnest((SELECT ${sql.array([...ids], "text")})) AS given (id)
  CROSS JOIN LATERAL ${rowWithImportedId(table, owner, kindOf(table, owner), sql.fragment`given.id`)}
`;

/** The operation that records something for an owner. */
const operationOf = <Table extends RecordTable>(
  table: Table,
  owner: RecordOwners[Table],
): Operation => {
  const { kind }: AccountMode & { readonly kind?: Kind } = owner;
  return table === "registration" && kind !== undefined ? REGISTER_OPERATIONS[kind] : "donate";
};

const keyRow = z.strictObject({ key: z.string() });

/** Returns those of the idempotency keys that belong to records of the owner. */
export const listKnownKeys = async <Table extends RecordTable>(
  db: CommonQueryMethods,
  table: Table,
  owner: RecordOwners[Table],
  keys: readonly string[],
): Promise<ReadonlySet<string>> =>
  new Set(
    await db.anyFirst(sql.type(keyRow)`
      SELECT known.key FROM ${knownKeys(owner, operationOf(table, owner), keys)}
    `),
  );

const idRow = z.strictObject({ id: z.uuid() });

/**
 * Lists the ids of the records with an id, their own or the one that they were imported with, in all modes of an account, or
 * of all (null). Costs an index search per account, mode and kind.
 */
export const listRecordIds = (
  db: CommonQueryMethods,
  table: RecordTable,
  given: string,
  accountId: string | null,
): Promise<readonly string[]> => {
  const name = sql.identifier([table]);
  const isOfKind =
    table === "registration"
      ? sql.fragment`AND registration.kind = ANY(${sql.array([...KINDS], "text")})`
      : sql.fragment``;
  const own = sql.fragment`
    UNION
    SELECT id
    FROM ${rowWithId(table, sql.fragment`${given}::uuid`)}
    WHERE ${accountId === null ? sql.fragment`TRUE` : sql.fragment`${name}.account_id = ${accountId}`}
  `;
  return db.anyFirst(sql.type(idRow)`
    SELECT imported.id
    FROM account
    CROSS JOIN unnest(${sql.array([...MODES], "text")}) AS mode
    CROSS JOIN LATERAL (
      SELECT ${name}.id
      FROM ${name}
      WHERE ${name}.account_id = account.id AND ${name}.mode = mode.mode ${isOfKind} AND ${name}.imported_id = ${given}
    ) AS imported
    WHERE ${accountId === null ? sql.fragment`TRUE` : sql.fragment`account.id = ${anyAccount(accountId)}`}
    ${isUuid(given) ? own : sql.fragment``}
  `);
};

/** Deletes the certificates of records, and leaves the records out of the certificates of orders. */
export const deleteCertificatesOf = async (
  transaction: DatabaseTransactionConnection,
  recordIds: readonly string[],
): Promise<void> => {
  for (const table of ["certificate_item", "certificate"]) {
    await transaction.query(sql.typeAlias("void")`
      DELETE FROM ${sql.identifier([table])} WHERE record_id = ANY(${sql.array(recordIds, "uuid")})
    `);
  }
};
