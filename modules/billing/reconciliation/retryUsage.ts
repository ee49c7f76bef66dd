import type { DatabaseTransactionConnection } from "slonik";
import { findAccount } from "../../accounts/accounts.sql.ts";
import type { OperatorContext } from "../../accounts/context.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import type { BillingContext } from "../context.ts";
import { currentTarget } from "../createBilling.ts";
import { namedEvents } from "../meterEvents.rules.ts";
import { askAgain, findMeterEvent, findRefundedUsage, sendAgain } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";
import type { BillingTarget } from "../usage.rules.ts";
import { applyAnswer } from "./askProcessor.ts";
import { lockMeterEvent } from "./getMeterEvent.ts";
import { listPossibleCustomers } from "./minutes.sql.ts";
import { decideRetry, requireCustomer } from "./retryUsage.rules.ts";
import type { OperatorAnswer, Retry } from "./retryUsage.rules.ts";

/** Returns where a retried event is sent: usage to the account's present customer, a refund to that of its usage. */
const targetOf = async (
  { billing }: BillingContext,
  transaction: DatabaseTransactionConnection,
  { id, accountId, mode, quantity, processor, customerId }: StoredMeterEvent,
): Promise<BillingTarget> => {
  if (quantity < 0) {
    const usage = await findRefundedUsage(transaction, id);
    return usage ?? { processor, customerId };
  }
  const account = await findAccount(transaction, accountId);
  const target = currentTarget(billing, account?.stripeCustomerId ?? null, mode);
  if (target.processor === "stripe" && target.customerId === null) {
    throw invalidRequest(
      `the organization of ${namedEvents([id])} has no Stripe customer; set one with \`impact org update\`, and retry`,
    );
  }
  return target;
};

const listCustomers = async (
  transaction: DatabaseTransactionConnection,
  { accountId, customerId }: StoredMeterEvent,
): Promise<ReadonlySet<string>> => {
  const possible = await listPossibleCustomers(transaction, [accountId]);
  return new Set(
    [customerId, ...possible.map((each) => each.customerId)].filter((each) => each !== null),
  );
};

/**
 * Retries a failed meter event. What the processor refused is sent again, under an identifier that was never used. About what
 * it may have, a sender asks it first. An operator who has found that out can answer for it.
 * @returns what the retry does; with `isDryRun` nothing is changed
 * @throws DomainError record_not_found if there is no such event; request_invalid if a retry cannot settle it
 */
export const retryUsage = (
  context: BillingContext & OperatorContext,
  meterEventId: bigint,
  {
    answer = null,
    isDryRun = false,
  }: { readonly answer?: OperatorAnswer | null; readonly isDryRun?: boolean } = {},
): Promise<{ readonly event: StoredMeterEvent; readonly retry: Retry }> =>
  context.db.transaction(async (transaction) => {
    const { clock, actor } = context;
    const event = await lockMeterEvent(transaction, meterEventId);
    const usage =
      event.waitsFor === null ? null : await findMeterEvent(transaction, event.waitsFor);
    const retry = decideRetry(event, usage, answer);
    const target = retry === "send" ? await targetOf(context, transaction, event) : null;
    const customerId =
      answer?.kind === "delivered"
        ? requireCustomer(event.id, await listCustomers(transaction, event), answer.customerId)
        : null;
    if (isDryRun) {
      return { event, retry };
    }
    const now = await readDatabaseTime(transaction, clock);
    if (retry === "record") {
      await applyAnswer(
        context,
        transaction,
        event,
        { kind: "delivered", customerId },
        { deliveredBy: now, now },
      );
    } else if (target !== null) {
      await sendAgain(transaction, event.id, target);
      await recordUsageEvent(transaction, event, "pending", now);
    } else {
      await askAgain(transaction, event.id);
      await recordUsageEvent(transaction, event, "pending", now);
    }
    await recordAction(transaction, actor, now, {
      action: "usage.retry",
      accountId: event.accountId,
      subject: namedEvents([event.id]),
      details: { quantity: event.quantity, answer },
    });
    return { event, retry };
  });
