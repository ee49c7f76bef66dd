import { setTimeout as sleep } from "node:timers/promises";
import { secondOf } from "../../../runtime/durations.rules.ts";
import { requireStripe } from "../createBilling.ts";
import type { BillingContext } from "../context.ts";
import { readDeployment } from "../deployment.sql.ts";
import { correctClock } from "../readDatabaseTime.ts";
import { ProcessorUnavailableError } from "../processor.ts";
import { listComparedCustomers, replaceInvoicedUsage, sumDelivered } from "./invoicedUsage.sql.ts";
import { compareUsage, explainUsage } from "./invoices.rules.ts";

const CALL_TIMEOUT_MS = 20_000;

/** Each customer takes two calls, or some more; usage needs the rest of Stripe's rate limit. */
const INTERVAL_MS = 100;

/** An outage: each further call may take as long as its timeout. */
const MAXIMUM_UNAVAILABLE_IN_A_ROW = 3;

const compareCustomer = async (
  { db, clock, billing }: BillingContext,
  customerId: string,
  { since, separatedAt }: { readonly since: number; readonly separatedAt: Date | null },
  signal: AbortSignal,
): Promise<void> => {
  // Read before the call: usage that is delivered during the call may be missing.
  const readAt = clock.now();
  const now = secondOf(readAt);
  const stripe = requireStripe(billing);
  const billed = await stripe.readInvoices(customerId, since, signal);
  const explanations = explainUsage(billed, { start: since, end: Math.max(now, since) + 1 }, now);
  const sums = await sumDelivered(db, customerId, explanations, separatedAt);
  const rows = sums.flatMap(({ accountIds, ...sum }, place) => {
    const explanation = explanations[place];
    const compared = explanation ? compareUsage(explanation, sum) : null;
    return compared ? [{ ...compared, accountIds }] : [];
  });
  await db.transaction((transaction) =>
    replaceInvoicedUsage(transaction, customerId, since, readAt, rows),
  );
};

/**
 * Compares the finalized invoices of every customer of Stripe with what was delivered to it, and stores what differs and what
 * usage no invoice has. What was compared is stored, so a repeated call continues.
 * @returns how many customers' invoices were read, and how many could not be
 * @param options.readBefore customers that were compared since then are skipped
 * @param options.onFailure called for each customer that cannot be read; the others follow
 * @throws ProcessorUnavailableError if Stripe is down
 */
export const compareInvoices = async (
  { bulkDb, ...given }: BillingContext,
  {
    accountId = null,
    readBefore,
    signal,
    onFailure,
    intervalMs = INTERVAL_MS,
  }: {
    readonly accountId?: string | null;
    readonly readBefore: Date;
    readonly signal: AbortSignal;
    readonly onFailure: (customerId: string, error: unknown) => void;
    readonly intervalMs?: number;
  },
) => {
  if (given.billing.stripe === null) {
    return { read: 0, failed: 0 };
  }
  const clock = await correctClock(given.db, given.clock);
  const context = { ...given, clock, db: bulkDb ?? given.db };
  const { separatedAt } = await readDeployment(context.db);
  let [read, failed, unavailable] = [0, 0, 0];
  const customers = await listComparedCustomers(context.db, { accountId, readBefore });
  for (const { customerId, since } of customers) {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]);
    try {
      await compareCustomer(context, customerId, { since, separatedAt }, limit);
      read += 1;
      unavailable = 0;
    } catch (error) {
      signal.throwIfAborted();
      failed += 1;
      onFailure(customerId, error);
      unavailable = error instanceof ProcessorUnavailableError ? unavailable + 1 : 0;
      if (unavailable === MAXIMUM_UNAVAILABLE_IN_A_ROW) {
        throw error;
      }
    }
    await sleep(intervalMs, undefined, { signal });
  }
  return { read, failed };
};
