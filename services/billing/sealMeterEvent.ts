import type { DatabasePool } from "slonik";
import { findAccount } from "../../db/accounts/accounts.ts";
import type { StoredMeterEvent } from "../../db/billing/meterEvents.ts";
import {
  findUnfinishedMeterEvent,
  insertMeterEvent,
  lockStream,
} from "../../db/billing/meterEvents.ts";
import { listOldestUnsealedFacts } from "../../db/billing/usageFacts.ts";
import type { Clock } from "../../domain/clock.ts";
import type { UsageStream } from "../../domain/billing/usage.ts";
import { lastSealableSecond } from "../../domain/billing/usage.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import type { BillingProcessor } from "../../providers/billing/processor.ts";

/**
 * What is to be sent next. `none`: nothing is ready. `processor_missing`: what is ready has to wait for the account's
 * processor, which is not set up.
 */
export type Sealing =
  | { readonly kind: "event"; readonly event: StoredMeterEvent }
  | { readonly kind: "none" | "processor_missing" };

/**
 * The stream's event that is to be sent next: the unfinished one, else the oldest second's facts, sealed now. Facts
 * that cancel out, and refunds of usage that was never accepted, are settled on the way without anything to send.
 *
 * While Stripe is not set up, nothing that is for it moves as long as the account has a Stripe customer: a single worker
 * without the key must not spoil anything. Of an account that has left Stripe it does, and is refused when it is sent.
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
    const account = await findAccount(transaction, stream.accountId);
    const stripeCustomerId = account?.stripeCustomerId ?? null;
    const mustWait = (processor: BillingProcessor["name"]): boolean =>
      stripeCustomerId !== null && billing.findProcessor(processor, stream.mode) === null;
    const unfinished = await findUnfinishedMeterEvent(transaction, stream);
    if (unfinished) {
      return mustWait(unfinished.processor)
        ? { kind: "processor_missing" }
        : { kind: "event", event: unfinished };
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
        lastSealableSecond(sealedAt),
        current,
      );
      if (parts.length === 0) {
        return { kind: "none" };
      }
      for (const { ids, quantity, held, second, ...billed } of parts) {
        const state = held ? "held" : quantity === 0n ? "void" : "sealed";
        if (state === "sealed" && mustWait(billed.processor)) {
          return { kind: "processor_missing" };
        }
        const event = await insertMeterEvent(transaction, stream, ids, {
          second,
          quantity,
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
