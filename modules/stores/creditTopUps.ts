import { SERVICE } from "../accounts/audit.rules.ts";
import type { BillingContext } from "../billing/context.ts";
import { readDeployment } from "../billing/deployment.sql.ts";
import { ProcessorEventUnreadableError } from "../billing/processor.ts";
import type { CheckoutSession } from "../billing/stripe/checkouts.ts";
import { isUuid } from "../records/fields.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import type { Context } from "../../runtime/context.ts";
import { DAY_MS, secondOf } from "../../runtime/durations.rules.ts";
import { errorDetails } from "../../runtime/errors.rules.ts";
import { findBalanceEntryByReference, isReferenceUsed } from "./balances.sql.ts";
import { changeBalance } from "./changeBalance.ts";
import { findStore } from "./stores.sql.ts";

/**
 * Credits what a merchant has paid to the store's balance. The session's id is the reference of the ledger entry, which is
 * unique in the store's ledger, and nobody can change a session's store. So it is credited once, however often it is seen,
 * and not at all if an operator has added an entry with this reference, to another store if this one does not exist. An
 * uninstalled store keeps its balance, so it is credited, too.
 * @returns whether this call credited it; false for an unpaid session and for those of other programs
 * @throws ProcessorEventUnreadableError if what was paid cannot be credited
 * @throws DomainError as `changeBalance`
 */
export const creditTopUp = async (
  { db, clock }: Context,
  { id, deploymentId, storeId, isPaid, amountCents, currency, paymentId }: CheckoutSession,
): Promise<boolean> => {
  if (!isPaid || deploymentId !== (await readDeployment(db)).id) {
    return false;
  }
  const paid = `The Checkout session ${id} paid ${amountCents} of the currency ${currency} for the store ${storeId}`;
  if (storeId === null || !isUuid(storeId) || !(await findStore(db, storeId))) {
    if (await isReferenceUsed(db, id)) {
      return false;
    }
    throw new ProcessorEventUnreadableError(
      `${paid}, which does not exist. Run impact store topup with --reference ${id} for the store that replaces it.`,
    );
  }
  if (await findBalanceEntryByReference(db, storeId, id)) {
    return false;
  }
  if (amountCents === null || currency !== "usd") {
    throw new ProcessorEventUnreadableError(`${paid}, whose balance is in USD.`);
  }
  const { replayed } = await changeBalance(
    { db, clock, actor: SERVICE },
    {
      kind: "topup",
      storeId,
      amountCents,
      reference: id,
      note: paymentId === null ? "Stripe" : `Stripe payment ${paymentId}`,
    },
  );
  return !replayed;
};

/** A page can be paid for a day, and a delayed payment takes up to two weeks. */
const LOOK_BACK_MS = 30 * DAY_MS;

/**
 * Credits what was paid in the last days and is missing, because no webhook arrived or the database was restored.
 * @returns how many payments were missing
 * @throws ProcessorUnavailableError if Stripe is down
 * @throws Error if some cannot be credited, after all others
 */
export const creditTopUps = async (
  context: BillingContext,
  signal: AbortSignal,
): Promise<number> => {
  const { db, clock, billing } = context;
  if (billing.stripe === null) {
    return 0;
  }
  const { id: deploymentId } = await readDeployment(db);
  const since = secondOf(new Date(clock.now().getTime() - LOOK_BACK_MS));
  let credited = 0;
  const failures: unknown[] = [];
  for (const session of await billing.stripe.listPaidCheckouts(deploymentId, since, signal)) {
    signal.throwIfAborted();
    try {
      credited += (await creditTopUp(context, session)) ? 1 : 0;
    } catch (error) {
      failures.push(error);
    }
  }
  const [cause] = failures;
  if (failures.length > 0) {
    throw new Error(
      `${counted(failures.length, "payment")} of stores could not be credited: ${errorDetails(cause).message}`,
      { cause },
    );
  }
  return credited;
};
