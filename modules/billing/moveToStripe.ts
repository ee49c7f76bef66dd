import { listOrganizations } from "../accounts/accounts.sql.ts";
import type { Account } from "../accounts/accounts.sql.ts";
import { lockDeployment, readDeployment, recordProcessor } from "./deployment.sql.ts";
import { countLedgerEvents, moveLedgerEvents } from "./ledgerUsage.sql.ts";
import { lockStreams } from "./streams.sql.ts";
import { KINDS } from "../records/owner.rules.ts";
import type { Kind } from "../records/owner.rules.ts";
import { monthlyCycle } from "./usage.rules.ts";
import { decideProcessor, findHold } from "./deployment.rules.ts";
import type { StripeAccount } from "./deployment.rules.ts";
import { secondOf } from "../../runtime/durations.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { correctClock } from "./readDatabaseTime.ts";
import { requestSubscriptionReads } from "./processorEvents/processorEvents.sql.ts";
import type { BillingContext } from "./context.ts";

const recordStripe = (
  { db, clock, actor }: BillingContext & OperatorContext,
  account: StripeAccount,
): Promise<void> =>
  db.transaction(async (transaction) => {
    const { processor } = await lockDeployment(transaction);
    if (processor?.name !== "stripe") {
      await recordProcessor(transaction, { name: "stripe", account });
      await requestSubscriptionReads(transaction, clock.now());
      await recordAction(transaction, actor, clock.now(), {
        action: "deployment.move_to_stripe",
        details: { account },
      });
    }
  });

/**
 * Moves a stream's ledger usage of the current cycle, earlier usage has been invoiced: its events are sent to Stripe. A restore
 * may have lost an earlier move, so Stripe is asked first if usage is held, or was after a restore.
 */
const moveStream = (
  { db, clock, actor }: BillingContext & OperatorContext,
  { id: accountId, name: accountName, billingDay }: Account,
  kind: Kind,
  /** Null: nothing is changed. */
  customerId: string | null,
) =>
  db.transaction(async (transaction) => {
    const stream = { accountId, kind, mode: "live" } as const;
    await lockStreams(transaction, [stream]);
    const now = clock.now();
    const { start: since } = monthlyCycle(billingDay, now);
    const events = { ...stream, fromSecond: secondOf(since) };
    const counts = await countLedgerEvents(transaction, events);
    const moved = { accountId, accountName, kind, since, ...counts };
    if (customerId !== null && moved.events > 0) {
      const deployment = await readDeployment(transaction);
      const hold = findHold(deployment);
      const askingSince = hold === null ? deployment.doubtedUntil : (hold.at ?? now);
      await moveLedgerEvents(transaction, events, { customerId, askingSince });
      await recordAction(transaction, actor, now, {
        action: "deployment.move_to_stripe",
        accountId,
        details: { ...moved, hold },
      });
    }
    return moved;
  });

/** What moved to the Stripe account, by organization and kind. */
export type MoveToStripe = {
  readonly account: StripeAccount;
  readonly usage: readonly Awaited<ReturnType<typeof moveStream>>[];
};

/**
 * Makes Stripe the processor of a deployment that the built-in ledger has billed, and moves the usage that was not
 * invoiced: that of the ledger's current billing cycle, of organizations with a Stripe customer. A repeated call moves
 * what has been left since, such as the usage of an organization that has a customer now.
 * @throws DomainError request_invalid if Stripe is not configured, or the deployment has another Stripe account
 * @throws Error if Stripe cannot be reached
 */
export const moveToStripe = async (
  given: BillingContext & OperatorContext,
  options: { readonly isDryRun: boolean },
): Promise<MoveToStripe> => {
  const { db, billing } = given;
  const context = { ...given, clock: await correctClock(db, given.clock) };
  const account = await billing.findStripeAccount();
  if (!account) {
    throw invalidRequest("STRIPE_SECRET_KEY is not set");
  }
  const { processor, originalStripeAccountId } = await readDeployment(db);
  const decision = decideProcessor(
    processor,
    { name: "stripe", account },
    { ledgerHasLiveUsage: false, originalStripeAccountId },
  );
  if (decision.kind === "mismatch") {
    throw invalidRequest(decision.problem);
  }
  if (!options.isDryRun) {
    // First, so that no process seals more live usage for the ledger.
    await recordStripe(context, account);
  }
  const usage: Awaited<ReturnType<typeof moveStream>>[] = [];
  for (const organization of await listOrganizations(db)) {
    const { stripeCustomerId } = organization;
    for (const kind of stripeCustomerId === null ? [] : KINDS) {
      usage.push(
        await moveStream(context, organization, kind, options.isDryRun ? null : stripeCustomerId),
      );
    }
  }
  return { account, usage: usage.filter(({ events }) => events > 0) };
};
