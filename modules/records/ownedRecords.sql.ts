import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { KINDS, MODES } from "./owner.rules.ts";
import type { AccountMode, Kind } from "./owner.rules.ts";
import { isUuid } from "./fields.rules.ts";
import { isRecordId } from "./recordIds.rules.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import { afterLookup, idRow, sql, values } from "../../db/sql.ts";

/*
 * The planner has no statistics of an account that is newer than they are, and takes it for one without records. To read
 * all of them then seems as cheap as to find one by its id, however many there are. So look-ups by an id compare the owner
 * where the planner sees no condition of an index (ADR 102).
 */

export type RecordTable = "registration" | "donation";

/** Whose records a condition selects. Without a kind, registrations of all kinds. */
export type RecordOwner = AccountMode & { readonly kind?: Kind };

const belongsTo = (
  table: RecordTable,
  { accountId, mode, kind }: RecordOwner,
  value: (text: string, type: "uuid" | "text") => FragmentSqlToken,
) => {
  const column = (name: string) => sql.identifier([table, name]);
  const ofMode = sql.fragment`
    ${column("account_id")} = ${value(accountId, "uuid")} AND ${column("mode")} = ${value(mode, "text")}
  `;
  return table === "donation" || kind === undefined
    ? ofMode
    : sql.fragment`${ofMode} AND ${column("kind")} = ${value(kind, "text")}`;
};

/** A value that the planner does not see. It expects an average one. */
const hidden = (text: string, type: "uuid" | "text") =>
  sql.fragment`(SELECT ${text}::${sql.identifier([type])})`;

/** The condition that a record belongs to an owner. For lists, of which the planner must know how long they are. */
export const ownedBy = (table: RecordTable, owner: RecordOwner) =>
  belongsTo(table, owner, (text) => sql.fragment`${text}`);

/** The condition that a record belongs to an owner, for searches of an index that has the owner and more. */
export const isOwn = (table: RecordTable, owner: RecordOwner) => belongsTo(table, owner, hidden);

/** The condition that a record, which another condition finds by its id, belongs to an owner. */
export const isFoundOwn = (table: RecordTable, owner: RecordOwner) =>
  afterLookup(ownedBy(table, owner));

/** An account's id as a value that the planner does not see. It expects an average account. */
export const anyAccount = (accountId: string) => hidden(accountId, "uuid");

/** The highest value of a `bigint`. No row has it as its id. */
const AFTER_LAST_ID = "9223372036854775807";

/**
 * The condition and the order of the rows of an account, or of all (null), the newest first, in a table with an index of the
 * account and the row's id. With an equality, the primary key seems cheaper than this index for an account with a few percent
 * of the rows: all rows that others have added since would be read first.
 * @param before only rows with a lower id; null for all
 */
export const newestOf = (accountId: string | null, before: string | null) => {
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

/** The condition that a record was imported. The ids of imported records are UUIDs of version 8; see `entryOf`. */
export const isImported = (id: FragmentSqlToken) => sql.fragment`substr(${id}::text, 15, 1) = '8'`;

/** The condition that a record has an attribution that is not empty, in the form that its index serves. */
export const hasAttribution = (table: RecordTable, attribution: string) => {
  const column = sql.identifier([table, "attribution"]);
  return sql.fragment`text_digest(${column}) = text_digest(${attribution}) AND ${column} <> ''`;
};

/** The condition of a list by attribution; an empty one selects the records without any. */
export const attributionCondition = (table: RecordTable, attribution: string) =>
  attribution === ""
    ? sql.fragment`${sql.identifier([table, "attribution"])} = ''`
    : hasAttribution(table, attribution);

/** The owner of an imported id, as expressions of SQL. */
type ImportScope = {
  readonly accountId: FragmentSqlToken;
  readonly mode: FragmentSqlToken;
  /** That of a registration, or 'donation'. */
  readonly kind: FragmentSqlToken;
};

export const importScopeOf = (
  table: RecordTable,
  { accountId, mode, kind }: RecordOwner,
): ImportScope => ({
  accountId: sql.fragment`${accountId}::uuid`,
  mode: sql.fragment`${mode}::text`,
  kind: sql.fragment`${table === "donation" ? table : (kind ?? null)}::text`,
});

/** That of a query of every account, mode and kind. */
export const EACH_SCOPE: ImportScope = {
  accountId: sql.fragment`account.id`,
  mode: sql.fragment`mode.mode`,
  kind: sql.fragment`kind.kind`,
};

/** The id of the record that was imported with an id, or null. Of several ids, each is looked up by itself. */
export const importedRecord = (
  table: RecordTable,
  { accountId, mode, kind }: ImportScope,
  id: FragmentSqlToken,
) => sql.fragment`(
  SELECT imported.id
  FROM ${sql.identifier([table])} AS imported
  WHERE imported.imported_id IS NOT NULL
    AND imported_id_digest(
      imported.account_id, imported.mode, ${table === "donation" ? sql.fragment`'donation'` : sql.fragment`imported.kind`},
      imported.imported_id
    ) = imported_id_digest(${accountId}, ${mode}, ${kind}, ${id})
)`;

/** The condition that a record of the owner has an id: its own, or the one that it was imported with. */
export const ownedWithId = (table: RecordTable, owner: RecordOwner, id: string) => {
  const imported = sql.fragment`${isRecordId(id) ? id : null}::text`;
  return sql.fragment`
    ${sql.identifier([table, "id"])} = ANY(ARRAY[
      ${isUuid(id) ? id : null}::uuid,
      ${importedRecord(table, importScopeOf(table, owner), imported)}
    ])
    AND ${isFoundOwn(table, owner)}
  `;
};

/** A record as its owner names it: by its own id, or by the one that it was imported with. */
export type NamedRecord = RecordOwner & { readonly id: string };

const NAMED_SCOPE: ImportScope = {
  accountId: sql.fragment`named.account_id`,
  mode: sql.fragment`named.mode`,
  kind: sql.fragment`named.kind`,
};

const NAMED = {
  accountId: "uuid",
  mode: "text",
  kind: "text",
  ownId: "uuid",
  importedId: "text",
} as const;

/** A query of the records that exist of those that are named, with their ids and their indexes in the list as `place`. */
export const namedIds = (table: RecordTable, named: readonly NamedRecord[]) => {
  const given = named.map(({ accountId, mode, kind, id }) => ({
    accountId,
    mode,
    kind: table === "donation" ? table : kind,
    ownId: isUuid(id) ? id : null,
    importedId: isRecordId(id) ? id : null,
  }));
  const name = sql.identifier([table]);
  const kindOf = table === "donation" ? sql.fragment`'donation'` : sql.fragment`kind`;
  // The LIMIT makes it a look-up for each id.
  return sql.fragment`
    WITH named AS MATERIALIZED (${jsonRows(NAMED, given)}),
    found AS (
      SELECT named.place, own.id
      FROM named
      CROSS JOIN LATERAL (
        SELECT id, account_id, mode, ${kindOf} AS kind FROM ${name} WHERE ${name}.id = named.own_id LIMIT 1
      ) AS own
      WHERE own.account_id = named.account_id AND own.mode = named.mode AND own.kind = named.kind
      UNION ALL
      SELECT named.place, ${importedRecord(table, NAMED_SCOPE, sql.fragment`named.imported_id`)}
      FROM named
    )
    SELECT (place - 1)::integer AS place, id FROM found WHERE id IS NOT NULL
  `;
};

/**
 * Lists the ids of the records with an id of their own or of their import, in all modes of an account, or of all (null).
 * Costs an index search per account, mode and kind.
 */
export const listRecordIds = (
  db: CommonQueryMethods,
  table: RecordTable,
  given: string,
  accountId: string | null,
) => {
  const isInAccount = (column: FragmentSqlToken) =>
    accountId === null ? sql.fragment`TRUE` : sql.fragment`${column} = ${accountId}`;
  return db.anyFirst(sql.type(idRow)`
    SELECT id
    FROM (
      SELECT ${importedRecord(table, EACH_SCOPE, sql.fragment`${given}`)} AS id
      FROM account
      CROSS JOIN ${values(MODES)} AS mode
      CROSS JOIN ${values(table === "donation" ? ["donation"] : KINDS)} AS kind
      WHERE ${isInAccount(sql.fragment`account.id`)}
      UNION
      SELECT id
      FROM ${sql.identifier([table])}
      WHERE id = ${isUuid(given) ? given : null}::uuid AND ${afterLookup(isInAccount(sql.fragment`account_id`))}
    ) AS found
    WHERE id IS NOT NULL
  `);
};
