import type { OperatorContext } from "../../accounts/context.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import type { BillingContext } from "../context.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { endDelays } from "../sending/attempts.sql.ts";
import { listOpenItems } from "../usageAttention.sql.ts";
import { retryUsage } from "./retryUsage.ts";
import type { OperatorAnswer, Retry } from "./retryUsage.rules.ts";
import { sendDifference } from "./sendDifference.ts";

/** An item of usage: a meter event (`E`) or a difference (`D`). */
export type UsageItem = { readonly letter: "E" | "D"; readonly id: bigint };

export type RetriedItem = UsageItem & { readonly units: number } & (
    | { readonly retry: Retry }
    /** Why a retry cannot settle it. */
    | { readonly refusal: DomainError }
  );

type RetryOptions = {
  readonly reason: string;
  readonly by: string;
  /** What the operator has found out about the events; null if they are to be asked about. */
  readonly answer?: OperatorAnswer | null;
  readonly isDryRun: boolean;
};

/**
 * Retries items one after the other. What a retry cannot settle is left, with the reason.
 * @throws ProcessorUnavailableError if a difference is among them and Stripe is not configured or does not answer
 */
export async function* retryItems(
  context: BillingContext & OperatorContext,
  items: readonly UsageItem[],
  options: RetryOptions,
): AsyncGenerator<RetriedItem, void, void> {
  for (const { letter, id } of items) {
    try {
      if (letter === "E") {
        const { event, retry } = await retryUsage(context, id, options);
        yield { letter, id, units: event.quantity, retry };
      } else {
        const { units } = await sendDifference(context, id, options);
        yield { letter, id, units: -units, retry: "send" };
      }
    } catch (error) {
      if (!(error instanceof DomainError)) {
        throw error;
      }
      yield { letter, id, units: 0, refusal: error };
    }
  }
}

/**
 * Retries everything of an organization, or of all (null), that can be settled without an operator, and lets the senders attempt
 * at once what is delayed. It can be repeated.
 */
export async function* retryOpenUsage(
  context: BillingContext & OperatorContext,
  accountId: string | null,
  options: RetryOptions,
): AsyncGenerator<RetriedItem, void, void> {
  const { db, clock, actor } = context;
  if (!options.isDryRun) {
    await db.transaction(async (transaction) => {
      const now = await readDatabaseTime(transaction, clock);
      const endedDelays = await endDelays(transaction, accountId, now);
      if (endedDelays > 0) {
        const action = "usage.retry";
        await recordAction(transaction, actor, now, {
          action,
          accountId,
          details: { endedDelays },
        });
      }
    });
  }
  const items = await listOpenItems(db, { accountId, span: null });
  // Documents settle the others.
  const retried = items.filter(({ cause }) => cause !== "late" && cause !== "credit_owed");
  yield* retryItems(context, retried, options);
}
