import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { donationCore } from "../charities/donations.sql.ts";
import { olderThan } from "../records/listPositions.sql.ts";
import type { RecordOwner, RecordTable } from "../records/ownedRecords.sql.ts";
import type { AccountMode, Owner } from "../records/owner.rules.ts";
import { columnsOf, inMicroseconds, safeInteger, sql } from "../../db/sql.ts";
import { conditionsOf } from "./customers.rules.ts";
import type { ImpactFilter, KnownCustomer } from "./customers.rules.ts";
import { isFiltered, isOfCustomer } from "./customers.sql.ts";
import { REFUNDS } from "./personalData.sql.ts";
import { donationRecordJson, impactRecordJson } from "./storeRecords.rules.ts";

const customerJson = sql.fragment`
  'customer_name', coalesce(customer_name, ''),
  'customer_email', coalesce(customer_email, ''),
  'customer_id', coalesce(customer_id, ''),
  'order_id', coalesce(order_id, '')
`;

const shownId = sql.fragment`coalesce(imported_id, id::text)`;

/** The names and values of a record's JSON as clients see it: of an `ImpactRecord` or a `DonationRecord`. */
const RECORD_JSON: Readonly<Record<RecordTable, FragmentSqlToken>> = {
  registration: sql.fragment`
    'id', ${shownId},
    'count', count,
    'refunded_count', refunded_count,
    ${customerJson},
    'notes', coalesce(notes, ''),
    'created_at', ${inMicroseconds(sql.identifier(["created_at"]))}
  `,
  donation: sql.fragment`
    'id', ${shownId},
    'amount', amount_cents / 100.0,
    'amount_cents', amount_cents,
    'currency', 'USD',
    'charity_name', charity_name,
    'ein', coalesce(substr(ein, 1, 2) || '-' || substr(ein, 3), ''),
    'nonprofit_id', nonprofit_id,
    ${customerJson},
    'refunded', refunded,
    'created_at', ${inMicroseconds(sql.identifier(["created_at"]))}
  `,
};

/** The schemas of `RECORD_JSON`. */
const SCHEMAS = { registration: impactRecordJson, donation: donationRecordJson } as const;

const jsonRow = z.strictObject({ record: z.unknown() });

const newestFirst = sql.fragment`ORDER BY created_at DESC, id DESC`;

/**
 * Returns a page of the owner's records, newest first, including refunded ones. No two have the same time.
 * @param part.after the time that they are older than
 */
export const listStoreRecords = async <Table extends RecordTable>(
  db: CommonQueryMethods,
  table: Table,
  owner: RecordOwner,
  filter: ImpactFilter,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): Promise<readonly z.output<(typeof SCHEMAS)[Table]>[]> => {
  const records = await db.anyFirst(sql.type(jsonRow)`
    SELECT json_build_object(${RECORD_JSON[table]}) AS record
    FROM ${sql.identifier([table])}
    WHERE ${isFiltered(table, owner, filter)}
      AND ${olderThan(table, after === null ? null : { createdAt: after, id: null })}
    ${newestFirst}
    LIMIT ${limit}
  `);
  return z.array(SCHEMAS[table]).parse(records);
};

const sumRow = z.strictObject({ sum: safeInteger });

/** Returns the units of the matching registrations, or the cents of the donations, less what was refunded. */
export const sumStoreRecords = (
  db: CommonQueryMethods,
  table: RecordTable,
  owner: RecordOwner,
  filter: ImpactFilter,
): Promise<number> => {
  const left =
    table === "registration"
      ? sql.fragment`count - refunded_count`
      : sql.fragment`CASE WHEN refunded THEN 0 ELSE amount_cents END`;
  return db.oneFirst(sql.type(sumRow)`
    SELECT coalesce(sum(${left}), 0)::bigint AS sum
    FROM ${sql.identifier([table])}
    WHERE ${isFiltered(table, owner, filter)}
  `);
};

const newestRow = z.strictObject({
  id: z.uuid(),
  count: safeInteger,
  unitPriceCents: safeInteger,
});

/** Lists the newest registrations that a store has paid for, with the units that they have left and the price of each. */
export const listNewestUnits = (
  db: CommonQueryMethods,
  owner: Owner,
  filter: ImpactFilter,
  limit: number,
): Promise<readonly Readonly<z.output<typeof newestRow>>[]> =>
  // The conditions determine the text of the statement.
  db.any(sql.prepared(`list_newest_units_${conditionsOf(filter).join("_")}`, newestRow)`
    SELECT id, count - refunded_count AS count, unit_price_cents AS "unitPriceCents"
    FROM registration
    WHERE ${isFiltered("registration", owner, filter)} AND unit_price_cents IS NOT NULL AND refunded_count < count
    ${newestFirst}
    LIMIT ${limit}
  `);

/** Locks the newest donations that are not refunded, until the transaction ends. */
export const lockNewestDonations = (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  filter: ImpactFilter,
  limit: number,
): Promise<readonly Readonly<z.output<typeof donationCore>>[]> =>
  transaction.any(sql.type(donationCore)`
    SELECT ${columnsOf("donation", donationCore)}
    FROM donation
    WHERE ${isFiltered("donation", owner, filter)} AND NOT refunded
    ${newestFirst}
    LIMIT ${limit}
    FOR UPDATE
  `);

/** What an export adds to a record of a list, besides its mode and its refunds. */
const PERSONAL_JSON: Readonly<Record<RecordTable, FragmentSqlToken>> = {
  registration: sql.fragment`'kind', kind`,
  donation: sql.fragment`'refunded_at', (
    SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    FROM donation_refund
    WHERE donation_id = donation.id
  )`,
};

/** Lists a customer's registrations or donations in both modes, newest first, each with its refunds' reasons, oldest first. */
export const listPersonalRecords = (
  db: CommonQueryMethods,
  table: RecordTable,
  accountId: string,
  customer: KnownCustomer,
  limit: number,
): Promise<readonly unknown[]> => {
  const { table: refunds, record } = REFUNDS[table];
  return db.anyFirst(sql.type(jsonRow)`
    SELECT json_build_object(
      ${RECORD_JSON[table]},
      'mode', mode,
      'refund_reasons', ARRAY(
        SELECT reason
        FROM ${sql.identifier([refunds])} AS refund
        WHERE ${sql.identifier(["refund", record])} = ${sql.identifier([table, "id"])} AND reason IS NOT NULL
        ORDER BY refund.created_at
      ),
      ${PERSONAL_JSON[table]}
    ) AS record
    FROM ${sql.identifier([table])}
    WHERE ${isOfCustomer(table, accountId, customer)}
    ${newestFirst}
    LIMIT ${limit}
  `);
};
