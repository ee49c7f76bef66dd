import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import { CHARITY_PROVIDERS } from "../accounts/accounts.rules.ts";
import type { DonationFilter } from "./donations.rules.ts";
import { knownKeys } from "../records/idempotencyKeys.sql.ts";
import {
  attributionCondition,
  isFoundOwn,
  ownedBy,
  ownedWithId,
} from "../records/ownedRecords.sql.ts";
import { modeColumn } from "../records/columns.sql.ts";
import { allOf, columnsOf, countRow, inRange, safeInteger, sql } from "../../db/sql.ts";
import { olderThan, positionColumn } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";

/** The columns that every reader of a donation needs. */
export const donationCore = z.strictObject({
  id: z.uuid(),
  importedId: z.string().nullable(),
  amountCents: safeInteger,
  ein: z.string().nullable(),
  nonprofitId: z.string(),
  charityName: z.string(),
  createdAt: z.date(),
  refunded: z.boolean(),
});

const donationRow = donationCore.extend({
  charityProvider: z.enum(CHARITY_PROVIDERS),
  idempotencyKey: z.string().nullable(),
  attribution: z.string(),
  metadata: z.record(z.string(), z.unknown()),
});

const donationColumns = columnsOf("donation", donationRow);

/** Returns a donation, by an id that it may have been imported with; null if the owner has none. */
export const findOwnDonation = (db: CommonQueryMethods, owner: AccountMode, id: string) =>
  db.maybeOne(sql.prepared("find_own_donation", donationRow)`
    SELECT ${donationColumns}
    FROM donation
    WHERE ${ownedWithId("donation", owner, id)}
  `);

const conditions = (
  owner: AccountMode,
  { attribution, metadataKey, metadataValue, ...range }: DonationFilter,
) =>
  allOf(
    ownedBy("donation", owner),
    attribution !== undefined && attributionCondition("donation", attribution),
    metadataKey !== undefined && sql.fragment`donation.metadata ? ${metadataKey}`,
    metadataKey !== undefined &&
      metadataValue !== undefined &&
      sql.fragment`donation.metadata ->> ${metadataKey} = ${metadataValue}`,
    ...inRange(sql.identifier(["donation", "created_at"]), range),
  );

const listedRow = donationRow.extend({ position: z.string() });

export type ListedDonation = Readonly<z.output<typeof listedRow>>;

/** Lists an owner's donations, newest first, including refunded ones. */
export const listDonations = (
  db: CommonQueryMethods,
  owner: AccountMode,
  filter: DonationFilter,
  {
    after = null,
    offset = 0,
    limit,
  }: {
    readonly after?: ListPosition | null;
    readonly offset?: number;
    readonly limit: number;
  },
) =>
  db.any(sql.type(listedRow)`
    SELECT ${donationColumns}, ${positionColumn("donation")}
    FROM (
      -- Only the ids, which the index has, so that skipped donations are not read.
      SELECT donation.id
      FROM donation
      WHERE ${conditions(owner, filter)} AND ${olderThan("donation", after)}
      ORDER BY donation.created_at DESC, donation.id DESC
      LIMIT ${limit}
      OFFSET ${offset}
    ) AS listed
    JOIN donation ON donation.id = listed.id
    ORDER BY donation.created_at DESC, donation.id DESC
  `);

export const countDonations = (
  db: CommonQueryMethods,
  owner: AccountMode,
  filter: DonationFilter,
) =>
  db.oneFirst(sql.type(countRow)`
    SELECT count(*) AS count
    FROM donation
    WHERE ${conditions(owner, filter)}
  `);

const detailsRow = donationRow.extend({ accountId: z.uuid(), mode: modeColumn });

export const findDonationDetails = (db: CommonQueryMethods, id: string) =>
  db.maybeOne(sql.type(detailsRow)`
    SELECT ${columnsOf("donation", detailsRow)}
    FROM donation
    WHERE donation.id = ${id}
  `);

/** Returns an owner's donations that have one of the ids, or that one of the idempotency keys has recorded. */
export const listDonationsOf = (
  db: CommonQueryMethods,
  owner: AccountMode,
  { ids, keys }: { readonly ids: readonly string[]; readonly keys: readonly string[] },
) =>
  db.any(sql.prepared("list_donations_of", donationRow)`
    SELECT ${donationColumns}
    FROM donation
    WHERE donation.id = ANY(
      ARRAY(SELECT unnest((SELECT ${sql.array([...ids], "uuid")})))
      || ARRAY(SELECT record_id FROM ${knownKeys(owner, "donate", keys)})
    ) AND ${isFoundOwn("donation", owner)}
  `);
