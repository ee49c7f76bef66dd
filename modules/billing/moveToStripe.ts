import type { DatabaseTransactionConnection } from "slonik";
import { listOrganizations } from "../accounts/accounts.sql.ts";
import type { Account } from "../accounts/accounts.sql.ts";
import { findEndOfPeriods } from "./billingPeriods.sql.ts";
import { lockDeployment, readDeployment, recordProcessor } from "./deployment.sql.ts";
import {
  countLedgerEvents,
  listBlockedLedgerEvents,
  revokeLedgerEvents,
} from "./ledgerEvents.sql.ts";
import { lockStream } from "./streams.sql.ts";
import { KINDS } from "../records/owner.rules.ts";
import type { Kind } from "../records/owner.rules.ts";
import { monthlyCycle } from "./billingCycle.rules.ts";
import { decideProcessor, findHold } from "./deployment.rules.ts";
import type { StripeAccount } from "./deployment.rules.ts";
import { secondOf } from "../../runtime/durations.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { Billing } from "./createBilling.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { beginHoldAnew } from "./holdUsage.ts";
import { correctClock } from "./readDatabaseTime.ts";
import { followOutcome } from "./reconciliation/applyOutcome.ts";
import { refreshSubscription } from "./processorEvents/refreshSubscriptions.ts";
import { requireNoCall } from "./reconciliation/requireRest.ts";
import type { BillingContext } from "./context.ts";

/** The usage of one organization and kind that moves from the ledger to Stripe. */
type MovedUsage = {
  readonly accountId: string;
  readonly accountName: string;
  readonly kind: Kind;
  /** The start of the ledger's current billing cycle; earlier usage has been invoiced. */
  readonly since: Date;
  readonly events: number;
  readonly quantity: number;
  /** Events that the ledger has not settled yet. They move when the command is repeated; while usage is held, immediately. */
  readonly unfinished: number;
  /**
   * Events from before the subscription, or of a billing period that has ended: they may be on no invoice. As long as the
   * deployment bills with the ledger, no subscription is read, so a dry run knows of none.
   */
  readonly ended: number;
};

export type MoveToStripe = {
  readonly account: StripeAccount;
  /** Whether the deployment had been moved before. */
  readonly isRepeated: boolean;
  readonly usage: readonly MovedUsage[];
};

const requireAccount = async (billing: Billing): Promise<StripeAccount> => {
  const account = await billing.findStripeAccount();
  if (!account) {
    throw invalidRequest("STRIPE_SECRET_KEY is not set");
  }
  return account;
};

const recordStripe = (
  { db, clock, actor }: BillingContext & OperatorContext,
  account: StripeAccount,
  operator: string,
): Promise<void> =>
  db.transaction(async (transaction) => {
    const { processor } = await lockDeployment(transaction);
    if (processor?.name !== "stripe") {
      await recordProcessor(transaction, { name: "stripe", account }, operator);
      await recordAction(transaction, actor, clock.now(), {
        action: "deployment.move_to_stripe",
        details: { account },
      });
    }
  });

const READ_TIMEOUT_MS = 20_000;

/** Keeps a statement far from its timeout: a stream has up to 2.7 million events in a month, one for each second. */
const EVENTS_PER_STATEMENT = 10_000;

/** Moves a stream's usage from a second on, in the order of time. */
const moveEvents = async (
  transaction: DatabaseTransactionConnection,
  stream: { readonly accountId: string; readonly kind: Kind },
  { since, now, isHeld }: { readonly since: Date; readonly now: Date; readonly isHeld: boolean },
): Promise<Pick<MovedUsage, "events" | "quantity">> => {
  let events = 0;
  let quantity = 0;
  let fromSecond = secondOf(since);
  for (;;) {
    const part = await revokeLedgerEvents(
      transaction,
      { ...stream, fromSecond },
      {
        note: "moved to Stripe",
        revokedAt: now,
        limit: EVENTS_PER_STATEMENT,
        withUnsettled: isHeld,
      },
    );
    events += part.events;
    quantity += part.quantity;
    if (part.events < EVENTS_PER_STATEMENT || part.lastSecond === null) {
      return { events, quantity };
    }
    fromSecond = part.lastSecond;
  }
};

/**
 * Moves a stream's ledger usage of the current cycle in one transaction: its facts are sealed again, for Stripe. If usage is
 * held, a restore may have lost an earlier move, so a comparison decides what is sent: the hold begins anew, which stops a
 * comparison that has looked for usage before, and usage that the ledger has not settled is moved as well. Without a hold,
 * the deployment's row is not locked, because a move can take minutes and an operator may want to hold usage meanwhile. Such
 * a hold is followed by a comparison, or nothing was lost: what was moved is from before it.
 */
const moveStream = (
  { db, clock, actor }: BillingContext & OperatorContext,
  { id: accountId, name: accountName, billingDay }: Account,
  kind: Kind,
  { isDryRun, isHeld }: { readonly isDryRun: boolean; readonly isHeld: boolean },
): Promise<MovedUsage> =>
  db.transaction(async (transaction) => {
    // Before the stream, as in corrections.
    const locked = isHeld && !isDryRun ? await lockDeployment(transaction) : null;
    const stream = { accountId, kind };
    await lockStream(transaction, { ...stream, mode: "live" });
    const deployment = locked ?? (await readDeployment(transaction));
    if ((findHold(deployment) !== null) !== isHeld) {
      throw invalidRequest(
        isHeld
          ? "the hold ended in the meantime; nothing more was moved. If it followed a restore, hold usage again with `impact usage hold`, and repeat the command"
          : "usage was held in the meantime; nothing more was moved. Repeat the command",
      );
    }
    const now = clock.now();
    const { start: since } = monthlyCycle(billingDay, now);
    const found = await countLedgerEvents(
      transaction,
      { ...stream, fromSecond: secondOf(since) },
      await findEndOfPeriods(transaction, stream, { now, graceMs: 0 }),
    );
    if (isDryRun) {
      return { accountId, accountName, kind, since, ...found };
    }
    if (isHeld && found.unfinished > 0) {
      await requireNoCall(transaction, { ...stream, mode: "live" }, clock);
    }
    if (isHeld) {
      const events = { ...stream, fromSecond: secondOf(since) };
      for (const event of await listBlockedLedgerEvents(transaction, events)) {
        await followOutcome(transaction, event, "superseded", { heldRefunds: "none", now });
      }
    }
    const moved = {
      kind,
      since,
      ...found,
      ...(await moveEvents(transaction, stream, { since, now, isHeld })),
      ...(isHeld && { unfinished: 0 }),
    };
    if (moved.events > 0) {
      const hold = isHeld ? await beginHoldAnew(transaction, deployment, now) : null;
      await recordAction(transaction, actor, now, {
        action: "deployment.move_to_stripe",
        accountId,
        details: { ...moved, hold },
      });
    }
    return { accountId, accountName, ...moved };
  });

/**
 * Makes Stripe the processor of a deployment that the built-in ledger has billed, and moves the usage that was not
 * invoiced: that of the ledger's current billing cycle, of organizations with a Stripe customer. A repeated call moves
 * what has been left since, such as the usage of an organization that has a customer now.
 * @throws DomainError request_invalid if Stripe is not configured, the deployment has another Stripe account, or a hold has
 * begun or ended meanwhile
 * @throws Error if Stripe cannot be reached
 */
export const moveToStripe = async (
  given: BillingContext & OperatorContext,
  options: { readonly isDryRun: boolean; readonly operator: string },
): Promise<MoveToStripe> => {
  const { db, billing } = given;
  const context = { ...given, clock: await correctClock(db, given.clock) };
  const account = await requireAccount(billing);
  const deployment = await readDeployment(db);
  const { processor, originalStripeAccountId } = deployment;
  const isHeld = findHold(deployment) !== null;
  const isRepeated = processor?.name === "stripe";
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
    await recordStripe(context, account, options.operator);
  }
  const usage: MovedUsage[] = [];
  for (const organization of await listOrganizations(db)) {
    if (organization.stripeCustomerId !== null) {
      if (!options.isDryRun) {
        // Not before Stripe is recorded. What is sent then is compared with the subscription's period.
        await refreshSubscription(context, organization.id, AbortSignal.timeout(READ_TIMEOUT_MS));
      }
      for (const kind of KINDS) {
        usage.push(
          await moveStream(context, organization, kind, { isDryRun: options.isDryRun, isHeld }),
        );
      }
    }
  }
  return {
    account,
    isRepeated,
    usage: usage.filter(({ events, unfinished }) => events + unfinished > 0),
  };
};
