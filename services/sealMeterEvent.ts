import type { DatabasePool } from "slonik";
import { findAccount } from "../db/accounts.ts";
import type { StoredMeterEvent } from "../db/meterEvents.ts";
import { findUnfinishedMeterEvent, insertMeterEvent, lockStream } from "../db/meterEvents.ts";
import { assignFacts, findOldestUnsealedSecond, listUnsealedFacts } from "../db/usageFacts.ts";
import type { Clock } from "../domain/clock.ts";
import type { UsageStream } from "../domain/usage.ts";
import { lastSealableSecond } from "../domain/usage.ts";
import type { Billing } from "../providers/billing/createBilling.ts";

/**
 * The stream's event that is to be sent next: the unfinished one, else the oldest second's facts, sealed now. Facts
 * that cancel out, and refunds of usage that was never accepted, are settled on the way without anything to send.
 * @returns null when nothing is ready
 */
export const sealMeterEvent = (
  {
    db,
    clock,
    billing,
  }: { readonly db: DatabasePool; readonly clock: Clock; readonly billing: Billing },
  stream: UsageStream,
): Promise<StoredMeterEvent | null> =>
  db.transaction(async (transaction) => {
    await lockStream(transaction, stream);
    const unfinished = await findUnfinishedMeterEvent(transaction, stream);
    if (unfinished) {
      return unfinished;
    }
    const account = await findAccount(transaction, stream.accountId);
    const processor = billing.forMode(stream.mode).name;
    const current = {
      processor,
      customerId: processor === "stripe" ? (account?.stripeCustomerId ?? null) : null,
    };
    const sealedAt = clock.now();
    for (;;) {
      const second = await findOldestUnsealedSecond(transaction, stream);
      if (second === null || second > lastSealableSecond(sealedAt)) {
        return null;
      }
      const parts = await listUnsealedFacts(transaction, stream, second, current);
      for (const { ids, quantity, held, ...billed } of parts) {
        const state = held ? "held" : quantity === 0n ? "void" : "sealed";
        const event = await insertMeterEvent(transaction, stream, {
          second,
          quantity,
          ...billed,
          state,
          sealedAt,
        });
        await assignFacts(transaction, ids, event.id);
        if (state === "sealed") {
          return event;
        }
      }
    }
  });
