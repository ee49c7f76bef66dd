import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { DonationTotals } from "../../domain/charities/donations.ts";
import { monthOf } from "../../domain/registrations/registrations.ts";
import { sql } from "../sql.ts";
import { asTotalError } from "../registrations/totals.ts";

const totalsRow = z.strictObject({
  allCount: z.bigint(),
  allCents: z.bigint(),
  monthCount: z.bigint(),
  monthCents: z.bigint(),
});

/** Returns the all-time totals and those of the UTC month that contains `time`. */
export const readDonationTotals = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  time: Date,
): Promise<{ readonly all: DonationTotals; readonly month: DonationTotals }> => {
  const row = await db.one(sql.type(totalsRow)`
    SELECT
      coalesce(max(count) FILTER (WHERE period = 'all'), 0)::bigint AS "allCount",
      coalesce(max(amount_cents) FILTER (WHERE period = 'all'), 0)::bigint AS "allCents",
      coalesce(max(count) FILTER (WHERE period <> 'all'), 0)::bigint AS "monthCount",
      coalesce(max(amount_cents) FILTER (WHERE period <> 'all'), 0)::bigint AS "monthCents"
    FROM donation_total
    WHERE account_id = ${owner.accountId} AND mode = ${owner.mode} AND period IN ('all', ${monthOf(time)})
  `);
  return {
    all: { count: Number(row.allCount), amountCents: Number(row.allCents) },
    month: { count: Number(row.monthCount), amountCents: Number(row.monthCents) },
  };
};

/**
 * Adds a donation to the all-time total and to that of the month in which it was recorded, or subtracts it.
 * @throws DomainError request_invalid if a total would exceed 2^53 - 1
 */
export const changeDonationTotals = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  donation: { readonly createdAt: Date; readonly amountCents: number },
  change: "add" | "subtract",
): Promise<void> => {
  const sign = change === "add" ? 1 : -1;
  const amountCents = sign * donation.amountCents;
  try {
    // Always in this order, so that concurrent changes cannot deadlock.
    for (const period of [monthOf(donation.createdAt), "all"]) {
      await transaction.query(
        change === "add"
          ? sql.typeAlias("void")`
            INSERT INTO donation_total (account_id, mode, period, count, amount_cents)
            VALUES (${owner.accountId}, ${owner.mode}, ${period}, 1, ${amountCents})
            ON CONFLICT (account_id, mode, period) DO UPDATE
            SET
              count = donation_total.count + excluded.count,
              amount_cents = donation_total.amount_cents + excluded.amount_cents
          `
          : sql.typeAlias("void")`
            UPDATE donation_total
            SET count = count + ${sign}, amount_cents = amount_cents + ${amountCents}
            WHERE account_id = ${owner.accountId} AND mode = ${owner.mode} AND period = ${period}
          `,
      );
    }
  } catch (error) {
    throw asTotalError(error, "donation_total_safe", "amount_cents");
  }
};
