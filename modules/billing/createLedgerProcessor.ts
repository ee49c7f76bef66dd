import type { DatabasePool } from "slonik";
import type { LedgerUsage } from "./ledgerUsage.sql.ts";
import { recordLedgerUsage, sumFirstLedgerUsage, sumLedgerUsage } from "./ledgerUsage.sql.ts";
import { unhurriedPace, openBulkPool } from "../../db/createBulkPace.ts";
import type { BulkPace } from "../../db/createBulkPace.ts";
import { joinCalls } from "../../db/joinCalls.ts";
import type { Mode } from "../records/owner.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { LEASE_ENDED } from "./processor.ts";
import type { BillingProcessor } from "./processor.ts";

/** They are added up in about 3 ms. */
const ENTRIES_OF_A_STEP = 8000;

/** A call waits for the statement of those before it, so whether it may be made is asked when its own begins. */
type Call = { readonly usage: LedgerUsage; readonly mayCall: () => boolean };

/** The built-in processor records usage in our own database. It has neither customers nor subscriptions. */
export const createLedgerProcessor = ({
  db,
  mode,
  pace = unhurriedPace,
}: {
  readonly db: DatabasePool;
  readonly mode: Mode;
  /** When sums are read. */
  readonly pace?: BulkPace | undefined;
}): BillingProcessor => {
  const reads = openBulkPool(db, pace);
  /** Returns the recorded quantity, or null if nothing may be recorded any more. */
  const record = joinCalls<Call, number | null>(async (calls) => {
    const usage = calls.flatMap((call) => (call.mayCall() ? [call.usage] : []));
    const recorded =
      usage.length === 0 ? new Map<string, number>() : await recordLedgerUsage(db, usage);
    return calls.map(({ usage: { identifier } }) => recorded.get(identifier) ?? null);
  });
  return {
    name: "ledger",
    prepare: () => Promise.resolve(),
    send: async (
      { identifier, customer, kind, quantity, second },
      _signal,
      mayCall = () => true,
    ) => {
      const { accountId } = customer;
      const usage = { accountId, mode, kind, identifier, second, quantity };
      const recorded = await record({ usage, mayCall });
      if (recorded === null) {
        return LEASE_ENDED;
      }
      return recorded === quantity
        ? { kind: "delivered" }
        : {
            kind: "conflict",
            reason: `${identifier} is recorded with ${counted(recorded, "unit")}`,
          };
    },
    usageLagMs: 0,
    sumUsage: async ({ accountId }, kind, span) => {
      const stream = { accountId, mode, kind };
      let total = 0;
      let { start } = span;
      while (start < span.end && pace.isYielding()) {
        const rest = { start, end: span.end };
        const first = await sumFirstLedgerUsage(reads, stream, rest, ENTRIES_OF_A_STEP);
        total += first.quantity;
        start = first.end;
      }
      return start < span.end
        ? total + (await sumLedgerUsage(reads, stream, { start, end: span.end }))
        : total;
    },
    findCurrentPeriod: () => Promise.resolve(null),
    readSubscription: () => Promise.reject(new Error("The built-in ledger has no subscriptions.")),
    readRejectionReport: (eventId) =>
      Promise.reject(new Error(`The built-in ledger has no event ${eventId}.`)),
    provisionDonations: () => Promise.resolve(),
  };
};
