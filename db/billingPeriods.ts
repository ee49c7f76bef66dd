import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Kind } from "../domain/accounts.ts";
import type { Period } from "../domain/billingCycle.ts";
import { sql } from "./sql.ts";

const periodRow = z.strictObject({ start: z.date(), end: z.date(), readAt: z.date() });

/** What the processor last said of an account's billing period, and when. */
export const findBillingPeriod = (
  db: CommonQueryMethods,
  accountId: string,
  meter: Kind,
): Promise<Readonly<z.output<typeof periodRow>> | null> =>
  db.maybeOne(sql.type(periodRow)`
    SELECT starts_at AS start, ends_at AS "end", read_at AS "readAt"
    FROM billing_period
    WHERE account_id = ${accountId} AND meter = ${meter}
  `);

export const saveBillingPeriod = async (
  db: CommonQueryMethods,
  accountId: string,
  meter: Kind,
  { start, end }: Period,
  readAt: Date,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO billing_period (account_id, meter, starts_at, ends_at, read_at)
    VALUES (
      ${accountId}, ${meter}, ${start.toISOString()}, ${end.toISOString()}, ${readAt.toISOString()}
    )
    ON CONFLICT (account_id, meter) DO UPDATE
    SET starts_at = excluded.starts_at, ends_at = excluded.ends_at, read_at = excluded.read_at
  `);
};

/** Forgets the mirrored periods of an account, whose subscription is now another. */
export const deleteBillingPeriods = async (
  db: CommonQueryMethods,
  accountId: string,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    DELETE FROM billing_period
    WHERE account_id = ${accountId}
  `);
};
