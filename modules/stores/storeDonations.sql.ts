import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import type { ImpactFilter } from "./customers.rules.ts";
import { donationCoreColumns, donationCoreRow } from "../charities/donations.sql.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { customerColumns, customerRow, isFiltered } from "./customers.sql.ts";
import { olderThan, positionColumn } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";

/** A donation of a store, as its list shows it. `position` is when it was created, in microseconds, as no other was. */
export const donationRow = z.strictObject({
  ...donationCoreRow,
  position: z.string(),
  ...customerRow,
});

export type StoreDonation = Readonly<z.output<typeof donationRow>>;

/** The columns of `donationRow`. */
export const donationColumns = sql.fragment`
  ${donationCoreColumns},
  ${positionColumn("donation")},
  ${customerColumns("donation")}
`;

/** Returns a page of the owner's donations, newest first, including refunded ones. */
export const listStoreDonations = (
  db: CommonQueryMethods,
  owner: AccountMode,
  filter: ImpactFilter,
  { after, limit }: { readonly after: ListPosition | null; readonly limit: number },
): Promise<readonly StoreDonation[]> =>
  db.any(sql.type(donationRow)`
    SELECT ${donationColumns}
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

const unrefundedRow = z.strictObject(donationCoreRow);

/** Locks the newest donations that are not refunded, until the transaction ends. */
export const lockNewestDonations = (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  filter: ImpactFilter,
  limit: number,
): Promise<readonly Readonly<z.output<typeof unrefundedRow>>[]> =>
  transaction.any(sql.type(unrefundedRow)`
    SELECT ${donationCoreColumns}
    FROM donation
    WHERE ${isFiltered("donation", owner, filter)} AND NOT donation.refunded
    ORDER BY donation.created_at DESC, donation.id DESC
    LIMIT ${limit}
    FOR UPDATE
  `);
