import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import { sumOtherEvents } from "../../../db/billing/meterEventReports.ts";
import { findAccount } from "../../../db/accounts/accounts.ts";
import { readDeployment } from "../../../db/billing/deployment.ts";
import {
  doubtFailedEvents,
  findLastLease,
  findUnfinishedMeterEvent,
  insertMeterEvent,
  listBlockedEventsSettledAt,
  lockStream,
  moveSettledEvent,
} from "../../../db/billing/meterEvents.ts";
import type { StoredMeterEvent } from "../../../db/billing/meterEvents.ts";
import {
  listOldestUnsealedFacts,
  listWaitingStreams,
  releaseFacts,
  sumFactsBySign,
} from "../../../db/billing/usageFacts.ts";
import type { BillingTarget } from "../../../db/billing/usageFacts.ts";
import { shareOf } from "../../../domain/billing/compareUsage.ts";
import type { Hold } from "../../../domain/billing/deployment.ts";
import { findHold } from "../../../domain/billing/deployment.ts";
import type { UsageStream } from "../../../domain/billing/usage.ts";
import { minuteOf, secondOf } from "../../../domain/billing/usage.ts";
import type { Clock } from "../../../domain/clock.ts";
import { DomainError } from "../../../domain/errors.ts";
import type { Billing } from "../../../providers/billing/createBilling.ts";
import {
  LONGEST_USAGE_LAG_MS,
  UsageUnreadableError,
} from "../../../providers/billing/processor.ts";
import type { BillingProcessor } from "../../../providers/billing/processor.ts";
import { guardUsage, releaseUsage } from "../holdUsage.ts";

type Dependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
};

/** A meter event whose delivery was unknown, and how much of it the processor has. */
export type SettledDoubt = {
  readonly event: StoredMeterEvent;
  readonly result: "delivered" | "partial" | "absent" | "unclear";
  readonly processorQuantity: number | null;
  readonly reason: string | null;
};

const NOTE = "in doubt after a restore";

const refuse = (message: string): never => {
  throw new DomainError("request_invalid", message);
};

/** @throws DomainError request_invalid if usage is not held, or something that was sent may not be visible yet */
const requireRest = async ({ db, clock }: Dependencies): Promise<Date> => {
  const hold: Hold | null = await guardUsage({ db, clock });
  const heldAt = hold?.at ?? refuse("usage is not held; hold it with `impact usage hold` first");
  const now = clock.now();
  const visibleAt = new Date(heldAt.getTime() + LONGEST_USAGE_LAG_MS);
  if (now < visibleAt) {
    refuse(
      `the processor's sums may lag until ${visibleAt.toISOString()}; repeat the command then`,
    );
  }
  const leasedUntil = await findLastLease(db);
  if (leasedUntil !== null && leasedUntil > now) {
    refuse("a call to the processor may be in progress; repeat the command in 15 seconds");
  }
  return heldAt;
};

const requireHold = async (transaction: DatabaseTransactionConnection): Promise<void> => {
  if (!findHold(await readDeployment(transaction))) {
    refuse("the hold was released meanwhile; nothing more was settled");
  }
};

const block = (
  transaction: DatabaseTransactionConnection,
  { id }: StoredMeterEvent,
  heldAt: Date,
): Promise<void> =>
  moveSettledEvent(transaction, id, {
    state: "blocked",
    note: NOTE,
    acceptedQuantity: null,
    settledAt: heldAt,
  });

/**
 * Blocks a stream's usage from before the hold: it may have been sent in the history that was lost. Usage and refunds
 * become events of their own.
 */
const blockStream = (
  { db, billing }: Dependencies,
  stream: UsageStream,
  heldAt: Date,
): Promise<void> =>
  db.transaction(async (transaction) => {
    await lockStream(transaction, stream);
    await requireHold(transaction);
    const unfinished = await findUnfinishedMeterEvent(transaction, stream);
    if (unfinished) {
      await block(transaction, unfinished, heldAt);
    }
    const account = await findAccount(transaction, stream.accountId);
    const stripeCustomerId = account?.stripeCustomerId ?? null;
    const processor = billing.processorFor({ stripeCustomerId }, stream.mode);
    const current: BillingTarget = {
      processor,
      customerId: processor === "stripe" ? stripeCustomerId : null,
    };
    for (;;) {
      const parts = await listOldestUnsealedFacts(transaction, stream, secondOf(heldAt), current);
      if (parts.length === 0) {
        return;
      }
      for (const { ids, held, second, processor: name, customerId } of parts) {
        for (const signed of await sumFactsBySign(transaction, ids)) {
          const event = await insertMeterEvent(transaction, stream, signed.ids, {
            ...signed,
            second,
            processor: name,
            customerId,
            state: held ? "held" : "sealed",
            sealedAt: heldAt,
          });
          if (!held) {
            await block(transaction, event, heldAt);
          }
        }
      }
    }
  });

const record = (
  db: DatabasePool,
  { event, result, processorQuantity }: SettledDoubt,
  heldAt: Date,
): Promise<void> =>
  db.transaction(async (transaction) => {
    await lockStream(transaction, event);
    await requireHold(transaction);
    await moveSettledEvent(transaction, event.id, {
      state: result === "absent" ? "superseded" : "delivered",
      note: `the processor has ${processorQuantity} units of it`,
      acceptedQuantity: result === "partial" ? processorQuantity : null,
      // Not now: nothing was sent after the hold, so the sums lag behind nothing.
      settledAt: heldAt,
    });
    if (result !== "delivered") {
      await releaseFacts(transaction, event.id, processorQuantity ?? 0);
    }
  });

const compareEvent = async (
  db: DatabasePool,
  processor: BillingProcessor,
  event: StoredMeterEvent,
  signal: AbortSignal,
): Promise<SettledDoubt> => {
  const { accountId, meter, customerId, quantity } = event;
  const minute = minuteOf(event.second);
  const others = await sumOtherEvents(db, event, minute);
  try {
    const customer = { accountId, customerId, subscriptionId: null };
    const theirs = await processor.sumUsage(customer, meter, minute, signal);
    const share = shareOf(quantity, theirs - others.delivered);
    const partial = share === 0 ? "absent" : "partial";
    return {
      event,
      result: share === quantity ? "delivered" : partial,
      processorQuantity: share,
      reason: null,
    };
  } catch (error) {
    if (error instanceof UsageUnreadableError) {
      return { event, result: "unclear", processorQuantity: null, reason: error.message };
    }
    throw error;
  }
};

const settleEvent = async (
  { db, billing }: Dependencies,
  event: StoredMeterEvent,
  heldAt: Date,
  signal: AbortSignal,
): Promise<SettledDoubt> => {
  const processor =
    billing.findProcessor(event.processor, event.mode) ??
    refuse(`${event.processor} is not configured, so its usage cannot be compared`);
  const settled = await compareEvent(db, processor, event, signal);
  if (settled.result !== "unclear") {
    await record(db, settled, heldAt);
  }
  return settled;
};

/**
 * Settles the usage that a restore has put in doubt, and ends the hold. All live usage from before the hold that is not
 * delivered may have been sent in the history that was lost. The processor's sum of its minute decides: what it has counts
 * as delivered, and only the rest is sent. Usage that the sums leave unclear stays blocked. A repeated call continues an
 * interrupted one.
 * @throws DomainError request_invalid if usage is not held, or it is too early to compare
 */
export const settleAfterRestore = async (
  deps: Dependencies,
  operator: string,
  signal: AbortSignal,
): Promise<readonly SettledDoubt[]> => {
  const { db } = deps;
  const heldAt = await requireRest(deps);
  for (const stream of await listWaitingStreams(db)) {
    if (stream.mode === "live") {
      await blockStream(deps, stream, heldAt);
    }
  }
  const settled: SettledDoubt[] = [];
  for (const event of await listBlockedEventsSettledAt(db, heldAt)) {
    signal.throwIfAborted();
    settled.push(await settleEvent(deps, event, heldAt, signal));
  }
  await db.transaction(async (transaction) => {
    await requireHold(transaction);
    // A retry in the lost history may have been accepted.
    await doubtFailedEvents(transaction);
  });
  await releaseUsage(deps, operator);
  return settled;
};
