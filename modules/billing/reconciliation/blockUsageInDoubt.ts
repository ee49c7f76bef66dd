import type { DatabaseTransactionConnection } from "slonik";
import type { Owner } from "../../records/owner.rules.ts";
import { findAccount } from "../../accounts/accounts.sql.ts";
import { findUnfinishedMeterEvent, moveSettledEvent } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { doubtEvent, findLatestCustomer, listBlockedEventsSettledAt } from "./eventsInDoubt.sql.ts";
import { insertMeterEvents, listOldestUnsealedFacts } from "../sending/sealMeterEvents.sql.ts";
import { listWaitingStreams } from "../sending/waitingStreams.sql.ts";
import { lockStream } from "../streams.sql.ts";
import { sumFactsBySign } from "../usageFacts.sql.ts";
import type { BillingTarget } from "../usageFacts.sql.ts";
import { secondOf } from "../../../runtime/durations.rules.ts";
import type { Clock } from "../../../runtime/clock.ts";
import type { Billing } from "../createBilling.ts";
import { currentTarget } from "../createBilling.ts";
import { runAndRollBack } from "../../../db/runAndRollBack.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";
import type { BillingContext } from "../context.ts";
import { requireHold, requireNoCall } from "./requireRest.ts";

const NOTE = "in doubt after a restore";

/** How many facts of a stream a statement looks at, so that few look at the same ones. */
const FACTS_AT_A_TIME = 1000;

const block = async (
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
  { clock, heldAt }: { readonly clock: Clock; readonly heldAt: Date },
): Promise<StoredMeterEvent> => {
  await moveSettledEvent(transaction, event.id, {
    state: "blocked",
    note: NOTE,
    acceptedQuantity: null,
    settledAt: heldAt,
  });
  await recordUsageEvent(transaction, event, "blocked", clock.now());
  return { ...event, state: "blocked", outcomeUnknown: true, settledAt: heldAt };
};

/** Returns where a stream's new usage is billed now, and where the lost history billed it at first. */
const targetsOf = async (
  transaction: DatabaseTransactionConnection,
  billing: Billing,
  { accountId, mode }: Owner,
): Promise<{ readonly present: BillingTarget; readonly inDoubt: BillingTarget }> => {
  const account = await findAccount(transaction, accountId);
  const present = currentTarget(billing, account?.stripeCustomerId ?? null, mode);
  if (present.processor !== "stripe") {
    return { present, inDoubt: present };
  }
  // The lost history may have given the organization its present customer later. Usage that the customer of its latest usage
  // lacks may be at the present one.
  const latestCustomerId = await findLatestCustomer(transaction, accountId);
  return {
    present,
    inDoubt: { ...present, customerId: latestCustomerId ?? present.customerId },
  };
};

/**
 * Blocks a stream's usage from before the hold: it may have been sent in the history that was lost. Usage and refunds
 * become events of their own.
 * @returns the events that were blocked
 */
const blockStream = async (
  { billing, clock }: BillingContext,
  transaction: DatabaseTransactionConnection,
  stream: Owner,
  { heldAt, firstSecond }: { readonly heldAt: Date; readonly firstSecond: number },
): Promise<readonly StoredMeterEvent[]> => {
  const blocked: StoredMeterEvent[] = [];
  await lockStream(transaction, stream);
  await requireHold(transaction, heldAt);
  const unfinished = await findUnfinishedMeterEvent(transaction, stream);
  if (unfinished) {
    // An attempt may have begun in a transaction that saw no hold and ended after it.
    await requireNoCall(transaction, stream, clock);
    if (unfinished.second >= firstSecond) {
      blocked.push(await block(transaction, unfinished, { clock, heldAt }));
    }
  }
  const { present, inDoubt } = await targetsOf(transaction, billing, stream);
  // The lost history may have billed usage that is blocked because of this hold, and sent its refunds, too.
  const range = { lastSecond: secondOf(heldAt), facts: FACTS_AT_A_TIME, heldAt };
  // Each statement begins at the oldest second of the one before, which may have more units than fit into one event.
  for (let oldestSecond = firstSecond; ;) {
    const [parts = []] = await listOldestUnsealedFacts(
      transaction,
      [{ ...stream, current: inDoubt, firstSecond: oldestSecond }],
      range,
    );
    const [oldest] = parts;
    if (!oldest) {
      return blocked;
    }
    oldestSecond = oldest.second;
    for (const { ids, held, second, processor, customerId } of parts) {
      // A refund of failed usage went where a retry sent that: to the customer of that time.
      const isOfRetried = held && customerId === inDoubt.customerId;
      for (const signed of await sumFactsBySign(transaction, ids)) {
        const [event] = await insertMeterEvents(
          transaction,
          [
            {
              ...signed,
              stream,
              factIds: signed.ids,
              second,
              processor,
              customerId: isOfRetried ? present.customerId : customerId,
              // Not sealed: an unfinished event of an earlier second may remain.
              state: "held",
            },
          ],
          heldAt,
        );
        if (event && held) {
          // The lost history may have retried its usage and sent it.
          await doubtEvent(transaction, event.id);
        } else if (event) {
          blocked.push(await block(transaction, event, { clock, heldAt }));
        }
      }
    }
  }
};

/**
 * Blocks the usage in doubt and returns its events. A dry run takes everything back. Each stream has a transaction of its
 * own, because a transaction with the locks of all streams can use up the server's memory for locks.
 */
export const blockUsageInDoubt = async (
  context: BillingContext,
  heldAt: Date,
  { since, isDryRun }: { readonly since: Date | null; readonly isDryRun: boolean },
): Promise<readonly StoredMeterEvent[]> => {
  const { db } = context;
  const span = { heldAt, firstSecond: since === null ? 0 : secondOf(since) };
  const streams = (await listWaitingStreams(db)).filter(({ mode }) => mode === "live");
  // An earlier run may have broken off.
  const blocked = [...(await listBlockedEventsSettledAt(db, heldAt))];
  for (const stream of streams) {
    const work = (transaction: DatabaseTransactionConnection) =>
      blockStream(context, transaction, stream, span);
    blocked.push(...(await (isDryRun ? runAndRollBack(db, work) : db.transaction(work))));
  }
  return blocked;
};
