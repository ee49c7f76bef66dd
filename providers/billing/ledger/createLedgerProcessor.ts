import type { DatabasePool } from "slonik";
import { insertLedgerUsage, sumLedgerUsage } from "../../../db/billing/ledgerUsage.ts";
import type { Mode } from "../../../domain/accounts/accounts.ts";
import type { BillingProcessor } from "../processor.ts";

/** The built-in processor records usage in our own database. It has neither customers nor subscriptions. */
export const createLedgerProcessor = ({
  db,
  mode,
}: {
  readonly db: DatabasePool;
  readonly mode: Mode;
}): BillingProcessor => ({
  name: "ledger",
  prepare: () => Promise.resolve(),
  send: async ({ identifier, customer, meter, quantity, second }) => {
    const { accountId } = customer;
    const isNew = await insertLedgerUsage(db, {
      accountId,
      mode,
      meter,
      identifier,
      second,
      quantity,
    });
    return { kind: "delivered", duplicate: !isNew };
  },
  usageLagMs: 0,
  sumUsage: ({ accountId }, meter, span) => sumLedgerUsage(db, { accountId, mode, meter }, span),
  findCurrentPeriod: () => Promise.resolve(null),
  provisionDonations: () => Promise.resolve(),
});
