import type { BulkPace } from "../../../db/createBulkPace.ts";
import { openBulkPool, unhurriedPace } from "../../../db/createBulkPace.ts";
import { secondOf } from "../../../runtime/durations.rules.ts";
import { requireStripe } from "../createBilling.ts";
import type { BillingContext } from "../context.ts";
import { readDeployment } from "../deployment.sql.ts";
import { correctClock } from "../readDatabaseTime.ts";
import { sweepStripe } from "../processorEvents/refreshSubscriptions.ts";
import type { StripeSweep, SweepOptions } from "../processorEvents/refreshSubscriptions.ts";
import {
  findComparedSince,
  listCustomers,
  replaceInvoicedUsage,
  sumDelivered,
} from "./invoicedUsage.sql.ts";
import { compareUsage, explainUsage } from "./invoices.rules.ts";

/** Lists the customers of an account, or all (null), that have usage to compare, and since when. */
async function* listComparedCustomers(
  { db }: BillingContext,
  accountId: string | null,
  readBefore: Date,
): AsyncGenerator<{ readonly id: string; readonly since: number }, void, void> {
  for (const id of await listCustomers(db, accountId)) {
    const since = await findComparedSince(db, { customerId: id, readBefore });
    if (since !== null) {
      yield { id, since };
    }
  }
}

/** Compares a customer's usage since a second with its invoices at Stripe, and stores the result. */
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
  const sums = await sumDelivered(
    db,
    customerId,
    explanations.map(({ kind, start, end, line }) => ({
      kind,
      start,
      end,
      finalizedAt: line?.finalizedAt ?? null,
    })),
    separatedAt,
  );
  const rows = explanations.flatMap((explanation, place) => {
    const sum = sums[place];
    const compared = sum ? compareUsage(explanation, sum) : null;
    return sum && compared ? [{ ...compared, accountIds: sum.accountIds }] : [];
  });
  await db.transaction((transaction) =>
    replaceInvoicedUsage(transaction, customerId, { since, readAt, rows }),
  );
};

/**
 * Compares the finalized invoices of every customer of Stripe with what was delivered to it, and stores what differs and what
 * usage no invoice has. What was compared is stored, so a repeated call continues.
 * @param options.readBefore customers that were compared since then are skipped
 * @throws ProcessorUnavailableError if Stripe is down
 */
export const compareInvoices = async (
  { pace = unhurriedPace, ...given }: BillingContext & { readonly pace?: BulkPace | undefined },
  {
    accountId = null,
    readBefore,
  }: { readonly accountId?: string | null; readonly readBefore: Date },
  options: SweepOptions,
): Promise<StripeSweep> => {
  if (given.billing.stripe === null) {
    return { read: 0, failed: 0 };
  }
  const clock = await correctClock(given.db, given.clock);
  const context = { ...given, clock, db: openBulkPool(given.db, pace) };
  const { separatedAt } = await readDeployment(context.db);
  return sweepStripe(
    listComparedCustomers(context, accountId, readBefore),
    ({ id, since }, signal) => compareCustomer(context, id, { since, separatedAt }, signal),
    options,
  );
};
