import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { CharityProviderName } from "../accounts/accounts.rules.ts";
import { totalAdditions as donationTotalAdditions } from "../charities/donationTotals.sql.ts";
import { joinedOrders, treeOrderId } from "../planting/nextOrders.sql.ts";
import { isUuid } from "../records/fields.rules.ts";
import {
  claimedKeys,
  keyHash,
  recordOfKey,
  registerOperation,
  scopeOf,
} from "../records/idempotencyKeys.sql.ts";
import {
  importedRecord,
  importScopeOf,
  isFoundOwn,
  isImported,
} from "../records/ownedRecords.sql.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import { KINDS } from "../records/owner.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { maximumJsonBytes } from "../registrations/presentRegistration.rules.ts";
import { asTotalError, sumsOf, totalAdditions } from "../registrations/totals.sql.ts";
import { namesCustomer, PERSONAL_COLUMNS } from "../stores/personalData.sql.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import type { ColumnType } from "../../db/jsonRows.ts";
import {
  afterLookup,
  identifiers,
  idRow,
  inMicroseconds,
  literals,
  safeInteger,
  sql,
} from "../../db/sql.ts";
import type { ImportedRecord, ImportOwner } from "./importedRecords.rules.ts";

/** A record to import, with the id derived from its identity or content. */
export type ImportedEntry = { readonly id: string; readonly record: ImportedRecord };

const SHARED_COLUMNS = {
  id: "uuid",
  imported_id: "text",
  created_at: "timestamptz",
  attribution: "text",
  metadata: "jsonb",
  customer_name: "text",
  customer_email: "text",
  customer_id: "text",
  order_id: "text",
} as const;

const COLUMNS: Readonly<Record<RecordTable, Readonly<Record<string, ColumnType>>>> = {
  registration: {
    ...SHARED_COLUMNS,
    kind: "text",
    count: "int8",
    fractional_count: "float8",
    refunded_count: "int8",
    json_bytes: "int4",
    notes: "text",
    unit_price_cents: "int8",
  },
  donation: {
    ...SHARED_COLUMNS,
    amount_cents: "int8",
    ein: "text",
    nonprofit_id: "text",
    charity_name: "text",
    refunded: "bool",
  },
};

/** Of these, the ones in which a line may differ from the record that it became. */
const NOT_COMPARED = new Set([
  "id",
  "imported_id",
  "kind",
  "refunded_count",
  "refunded",
  "json_bytes",
]);

/** The rows of a batch, with their places, their keys, and the id of the record that they may be an export of. */
const entryRows = (table: RecordTable, batch: readonly ImportedEntry[]) =>
  jsonRows(
    { ...COLUMNS[table], own_id: "uuid", idempotency_key: "text" },
    batch.map(({ id, record }) => ({
      ...record,
      id,
      own_id: record.imported_id !== null && isUuid(record.imported_id) ? record.imported_id : null,
      json_bytes: maximumJsonBytes({
        importedId: record.imported_id,
        idempotencyKey: record.idempotency_key,
        attribution: record.attribution,
        metadata: record.metadata,
      }),
    })),
  );

const keyScopeOf = (table: RecordTable, owner: AccountMode) => ({
  ...scopeOf(owner, "donate"),
  ...(table === "registration" && { operation: registerOperation(sql.fragment`entry.kind`) }),
});

export type InsertOptions = {
  /** Whether the planting partner plants the imported trees. */
  readonly ordersPlanting: boolean;
  /** The provider that knows the ids of the donations' charities. */
  readonly charityProvider: CharityProviderName;
};

/** What the two tables need besides the columns: planting orders, further columns, and the totals of what was inserted. */
const furtherParts = (
  table: RecordTable,
  { accountId, mode }: ImportOwner,
  { charityProvider, ordersPlanting }: InsertOptions,
) =>
  table === "donation"
    ? {
        orders: sql.fragment``,
        joinKeys: sql.fragment``,
        furtherColumns: sql.fragment`charity_provider`,
        values: sql.fragment`${charityProvider}`,
        join: sql.fragment``,
        order: sql.fragment`id`,
        totals: donationTotalAdditions(
          sql.fragment`(SELECT * FROM inserted WHERE NOT refunded) AS counted`,
        ),
      }
    : {
        orders: sql.fragment`
          to_order AS MATERIALIZED (
            SELECT DISTINCT ${accountId}::uuid AS account_id, ${mode}::text AS mode, kind
            FROM entry
            WHERE ${ordersPlanting}
          ),
          ${joinedOrders("to_order")},
        `,
        joinKeys: sql.fragment`CROSS JOIN (SELECT count(*) FROM joined_order) AS orders`,
        furtherColumns: sql.fragment`planting_order_id, tree_order_id`,
        values: sql.fragment`planting_order_id, ${treeOrderId}`,
        join: sql.fragment`LEFT JOIN joined_order USING (kind)`,
        order: sql.fragment`kind, id`,
        totals: totalAdditions(
          sumsOf(sql.fragment`
            (SELECT account_id, mode, kind, count - refunded_count AS count, created_at FROM inserted) AS counted
          `),
        ),
      };

/**
 * Records a batch, its keys and its totals in one statement. There is no usage, since another system billed it. An entry whose
 * key was used since the import looked for it is skipped; a batch with an id that was is rejected as a whole.
 *
 * Rows and totals are inserted in the same order as those of new records, so that the two cannot deadlock.
 * @returns the ids of the new records
 * @throws DomainError request_invalid if a total would exceed a safe integer
 */
export const insertImported = async (
  db: CommonQueryMethods,
  table: RecordTable,
  owner: ImportOwner,
  batch: readonly ImportedEntry[],
  options: InsertOptions,
) => {
  const parts = furtherParts(table, owner, options);
  const columns = identifiers(Object.keys(COLUMNS[table]));
  try {
    return await db.anyFirst(sql.type(idRow)`
      WITH entry AS MATERIALIZED (${entryRows(table, batch)}),
      ${parts.orders}
      ${claimedKeys(keyScopeOf(table, owner), parts.joinKeys)},
      inserted AS (
        INSERT INTO ${sql.identifier([table])} (${columns}, account_id, mode, idempotency_key, ${parts.furtherColumns})
        SELECT
          ${columns}, ${owner.accountId}::uuid, ${owner.mode},
          -- A store's key may name a customer, and an erasure leaves only its hash.
          CASE WHEN NOT ${owner.isStore} THEN idempotency_key END, ${parts.values}
        FROM entry ${parts.join}
        WHERE idempotency_key IS NULL OR id IN (SELECT record_id FROM claimed)
        ORDER BY ${parts.order}
        RETURNING *
      ),
      ${parts.totals}
      SELECT id FROM inserted
    `);
  } catch (error) {
    throw table === "donation"
      ? asTotalError(error, "donor_total_safe", "amount_cents")
      : asTotalError(error, "impact_total_safe", "count");
  }
};

const timeRow = z.strictObject({ createdAt: z.string() });

/** Returns those of the times, in microseconds, that records of a store have. */
export const listTakenTimes = (
  db: CommonQueryMethods,
  { accountId, mode }: AccountMode,
  times: readonly string[],
) => {
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

/**
 * The fields of an entry in which a record differs. A record without personal data may have been erased, so the data of the
 * entry are no difference.
 */
const differences = (table: RecordTable, { isStore }: ImportOwner) => {
  const fields = (arePersonal: boolean) =>
    sql.array(
      Object.keys(COLUMNS[table]).filter(
        (name) => !NOT_COMPARED.has(name) && PERSONAL_COLUMNS[table].includes(name) === arePersonal,
      ),
      "text",
    );
  return sql.fragment`(
    SELECT coalesce(array_agg(field.key), '{}')
    FROM to_jsonb(known) AS record, jsonb_each(to_jsonb(entry)) AS field
    WHERE field.value <> record -> field.key
      AND (field.key = ANY(${fields(false)}) OR field.key = ANY(${fields(true)}) AND ${namesCustomer(table, "known")})
      -- Imported times of a store become unique.
      AND NOT (
        ${isStore} AND field.key = 'created_at'
        AND known.created_at > entry.created_at AND known.created_at < entry.created_at + interval '1 second'
      )
  )`;
};

const knownRow = z.strictObject({
  place: z.int(),
  id: z.uuid(),
  differences: z.array(z.string()),
  /** How much more of an imported record is refunded in the entry, if that is the only difference. */
  furtherRefund: safeInteger.nullable(),
});

/** A record that has the id or the key of the entry at a place, and the fields in which it differs from the entry. */
export type KnownRecord = Readonly<z.output<typeof knownRow>>;

/** Lists the records of a table that have the ids or keys of a batch. Of several entries, each is looked up by itself. */
export const listKnown = (
  db: CommonQueryMethods,
  table: RecordTable,
  owner: ImportOwner,
  batch: readonly ImportedEntry[],
) => {
  const name = sql.identifier([table]);
  const ofKind = table === "donation" ? {} : { kind: sql.fragment`entry.kind` };
  const isOfKind = afterLookup(
    table === "donation" ? sql.fragment`true` : sql.fragment`${name}.kind = entry.kind`,
  );
  const byKey = recordOfKey(
    keyHash(keyScopeOf(table, owner), sql.identifier(["entry", "idempotency_key"])),
  );
  const [refundField, higher] =
    table === "donation"
      ? ["refunded", "it is refunded here"]
      : ["refunded_count", "it is higher here"];
  const refundOf = (record: string) => sql.identifier([record, refundField]);
  const further =
    table === "donation"
      ? sql.fragment`1::bigint`
      : sql.fragment`entry.refunded_count - known.refunded_count`;
  return db.any(sql.type(knownRow)`
    WITH entry AS MATERIALIZED (${entryRows(table, batch)}),
    compared AS (
      SELECT
        entry.place::integer - 1 AS place,
        known.id,
        array_remove(
          ARRAY[CASE WHEN coalesce(known.imported_id, known.id::text) <> entry.imported_id THEN 'id' END]
          || ${differences(table, owner)}
          || ARRAY[
            -- A record has the key of the entry if it is the record of that key; a key that the entry lacks differs, too.
            CASE
              WHEN entry.idempotency_key IS NULL AND known.idempotency_key IS NOT NULL
                OR entry.idempotency_key IS NOT NULL AND ${byKey} IS DISTINCT FROM known.id
                THEN 'idempotency_key'
            END
          ],
          NULL
        ) AS others,
        -- Null, further, or why the refunds of the entry cannot be applied.
        CASE
          WHEN ${refundOf("known")} = ${refundOf("entry")} THEN NULL
          WHEN ${refundOf("known")} > ${refundOf("entry")} THEN ${higher}
          WHEN EXISTS (SELECT FROM refund WHERE refund.registration_id = known.id) THEN 'units were refunded here, too'
          ELSE 'further'
        END AS refund,
        ${further} AS further
      FROM entry
      CROSS JOIN LATERAL (
        SELECT id
        FROM ${name}
        WHERE ${name}.id = ANY(ARRAY[entry.id, entry.own_id]) AND ${isFoundOwn(table, owner)} AND ${isOfKind}
        UNION
        SELECT ${importedRecord(table, { ...importScopeOf(table, owner), ...ofKind }, sql.fragment`entry.imported_id`)}
        UNION
        SELECT ${byKey}
      ) AS match
      JOIN ${name} AS known ON known.id = match.id
    )
    SELECT
      place,
      id,
      CASE
        WHEN refund IS NULL THEN others
        WHEN refund = 'further' THEN others || ${refundField}::text
        ELSE others || (${refundField}::text || ' (' || refund || ')')
      END AS differences,
      CASE WHEN refund = 'further' AND others = '{}' AND ${isImported(sql.fragment`id`)} THEN further END AS "furtherRefund"
    FROM compared
  `);
};
