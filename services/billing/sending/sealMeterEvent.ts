import type { DatabasePool } from "slonik";
import { findAccount } from "../../../db/accounts/accounts.ts";
import type { StoredMeterEvent } from "../../../db/billing/meterEvents.ts";
import {
  findUnfinishedMeterEvent,
  insertMeterEvent,
  lockStream,
} from "../../../db/billing/meterEvents.ts";
import { readDeployment } from "../../../db/billing/deployment.ts";
import { listOldestUnsealedFacts } from "../../../db/billing/usageFacts.ts";
import { describeHold, findHold, findSealingProblem } from "../../../domain/billing/deployment.ts";
import { stateAtSealing } from "../../../domain/billing/meterEvents.ts";
import type { ProcessorName, UsageStream } from "../../../domain/billing/usage.ts";
import { lastSealableSecond } from "../../../domain/billing/usage.ts";
import type { Clock } from "../../../domain/clock.ts";
import type { Billing } from "../../../providers/billing/createBilling.ts";

/**
 * The event to send next. `none`: nothing is ready. `stripe_missing`: the usage waits until Stripe is configured.
 * `held`: nothing is sealed or sent until an operator ends the hold. `wrong_processor`: this process must not seal the deployment's live usage.
 */
export type Sealing =
  | { readonly kind: "event"; readonly event: StoredMeterEvent }
  | { readonly kind: "none" }
  | { readonly kind: "stripe_missing" }
  | { readonly kind: "held"; readonly reason: string }
  | { readonly kind: "wrong_processor"; readonly problem: string };

/**
 * Returns the stream's event to send next: the unfinished one, or else the oldest second's facts, sealed now. Void and
 * held events are sealed along the way.
 *
 * If Stripe is not configured, the usage of an account with a Stripe customer waits, so that one worker without the key
 * cannot fail it. If the account has left Stripe, its events for Stripe are returned and fail when they are sent.
 */
export const sealMeterEvent = (
  {
    db,
    clock,
    billing,
  }: { readonly db: DatabasePool; readonly clock: Clock; readonly billing: Billing },
  stream: UsageStream,
): Promise<Sealing> =>
  db.transaction(async (transaction) => {
    await lockStream(transaction, stream);
    const deployment = await readDeployment(transaction);
    const hold = findHold(deployment);
    if (hold) {
      return { kind: "held", reason: describeHold(hold) };
    }
    const account = await findAccount(transaction, stream.accountId);
    const stripeCustomerId = account?.stripeCustomerId ?? null;
    const mustWait = (processor: ProcessorName): boolean =>
      stripeCustomerId !== null && billing.findProcessor(processor, stream.mode) === null;
    const unfinished = await findUnfinishedMeterEvent(transaction, stream);
    if (unfinished) {
      return mustWait(unfinished.processor)
        ? { kind: "stripe_missing" }
        : { kind: "event", event: unfinished };
    }
    if (stream.mode === "live") {
      const problem = findSealingProblem(deployment.processor, billing.liveProcessor);
      if (problem !== null && stripeCustomerId === null) {
        return { kind: "wrong_processor", problem };
      }
    }
    const processor = billing.processorFor({ stripeCustomerId }, stream.mode);
    const current = {
      processor,
      customerId: processor === "stripe" ? stripeCustomerId : null,
    };
    const sealedAt = clock.now();
    for (;;) {
      const parts = await listOldestUnsealedFacts(
        transaction,
        stream,
        { first: 0, last: lastSealableSecond(sealedAt) },
        current,
      );
      if (parts.length === 0) {
        return { kind: "none" };
      }
      for (const { ids, quantity, alreadyReported, held, second, ...billed } of parts) {
        const state = stateAtSealing({ held, quantity });
        if (state === "sealed" && mustWait(billed.processor)) {
          return { kind: "stripe_missing" };
        }
        const event = await insertMeterEvent(transaction, stream, ids, {
          second,
          quantity,
          alreadyReported,
          ...billed,
          state,
          sealedAt,
        });
        if (state === "sealed") {
          return { kind: "event", event };
        }
      }
    }
  });
