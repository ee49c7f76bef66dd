import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import type { DonationCustomer, ImpactFilter } from "./customers.rules.ts";
import type { ConfirmedCharity } from "../charities/charities.rules.ts";
import { monthOf } from "../registrations/registrations.rules.ts";
import { donationCoreColumns, donationCoreRow } from "../charities/donations.sql.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { customerColumns, customerRow, isFiltered } from "./customers.sql.ts";
import { olderThan, positionColumn } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";

/** A donation of a store to insert. */
export type NewStoreDonation = AccountMode & {
  readonly id: string;
  readonly amountCents: number;
  readonly charity: ConfirmedCharity;
  readonly customer: DonationCustomer;
  /** In microseconds. */
  readonly createdAt: string;
};

/** Defines queries that insert donations of stores with their totals, as parts of a statement. */
export const donationInserts = (
  donations: readonly NewStoreDonation[],
): FragmentSqlToken => sql.fragment`
  given_donation AS MATERIALIZED (
    SELECT *
    FROM json_to_recordset(${JSON.stringify(
      donations.map(({ id, accountId, mode, amountCents, charity, customer, createdAt }) => ({
        id,
        account_id: accountId,
        mode,
        amount_cents: amountCents,
        ein: charity.charity.ein,
        nonprofit_id: charity.charity.nonprofitId,
        charity_provider: charity.provider,
        charity_name: charity.charity.name,
        created_at: createdAt,
        month: monthOf(createdAt),
        customer_name: customer.customerName,
        customer_email: customer.customerEmail,
        customer_id: customer.customerId,
        order_id: customer.orderId,
      })),
    )}) AS given (
      id uuid, account_id uuid, mode text, amount_cents bigint, ein text, nonprofit_id text, charity_provider text,
      charity_name text, created_at timestamptz, month text, customer_name text, customer_email text,
      customer_id text, order_id text
    )
  ),
  inserted_donation AS (
    INSERT INTO donation (
      id, account_id, mode, amount_cents, ein, nonprofit_id, charity_provider, charity_name, confirmed_name,
      created_at, attribution, metadata, customer_name, customer_email, customer_id, order_id
    )
    SELECT
      id, account_id, mode, amount_cents, ein, nonprofit_id, charity_provider, charity_name, charity_name,
      created_at, '', '{}', customer_name, customer_email, customer_id, order_id
    FROM given_donation
  ),
  added_donation_total AS (
    INSERT INTO donation_total (account_id, mode, period, count, amount_cents)
    SELECT account_id, mode, period, count(*), sum(amount_cents)::bigint
    FROM given_donation
    CROSS JOIN LATERAL (VALUES ('all'), (month)) AS span (period)
    GROUP BY account_id, mode, period
    -- As every change of totals, so that concurrent ones cannot deadlock.
    ORDER BY account_id, mode, period = 'all'
    ON CONFLICT (account_id, mode, period) DO UPDATE
    SET
      count = donation_total.count + excluded.count,
      amount_cents = donation_total.amount_cents + excluded.amount_cents
  )
`;

const listedRow = z.strictObject({
  ...donationCoreRow,
  position: z.string(),
  ...customerRow,
});

/** A donation of a store, as its list shows it. `position` is when it was created, in microseconds, as no other was. */
export type StoreDonation = Readonly<z.output<typeof listedRow>>;

/** Returns a page of the owner's donations, newest first, including refunded ones. */
export const listStoreDonations = (
  db: CommonQueryMethods,
  owner: AccountMode,
  filter: ImpactFilter,
  { after, limit }: { readonly after: ListPosition | null; readonly limit: number },
): Promise<readonly StoreDonation[]> =>
  db.any(sql.type(listedRow)`
    SELECT
      ${donationCoreColumns},
      ${positionColumn("donation")},
      ${customerColumns("donation")}
    FROM donation
    WHERE ${isFiltered("donation", owner, filter)} AND ${olderThan("donation", after)}
    ORDER BY donation.created_at DESC, donation.id DESC
    LIMIT ${limit}
  `);

const centsRow = z.strictObject({ cents: safeInteger });

/** Returns the sum in cents of the matching donations that are not refunded. */
export const sumStoreDonations = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  filter: ImpactFilter,
): Promise<number> =>
  db.oneFirst(sql.type(centsRow)`
    SELECT coalesce(sum(donation.amount_cents), 0)::bigint AS cents
    FROM donation
    WHERE ${isFiltered("donation", owner, filter)} AND NOT donation.refunded
  `);

const unrefundedRow = z.strictObject({
  id: z.uuid(),
  importedId: z.string().nullable(),
  amountCents: safeInteger,
  ein: z.string().nullable(),
  nonprofitId: z.string(),
  charityName: z.string(),
  createdAt: z.date(),
});

/** Locks the newest donations that are not refunded, until the transaction ends. */
export const lockNewestDonations = (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  filter: ImpactFilter,
  limit: number,
): Promise<readonly Readonly<z.output<typeof unrefundedRow>>[]> =>
  transaction.any(sql.type(unrefundedRow)`
    SELECT
      donation.id,
      donation.imported_id AS "importedId",
      donation.amount_cents AS "amountCents",
      donation.ein,
      donation.nonprofit_id AS "nonprofitId",
      donation.charity_name AS "charityName",
      donation.created_at AS "createdAt"
    FROM donation
    WHERE ${isFiltered("donation", owner, filter)} AND NOT donation.refunded
    ORDER BY donation.created_at DESC, donation.id DESC
    LIMIT ${limit}
    FOR UPDATE
  `);
