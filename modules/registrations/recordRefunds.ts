import type { DatabaseTransactionConnection } from "slonik";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import { insertTraceContexts } from "../billing/sending/traceContexts.sql.ts";
import { insertRefunds } from "./refunds.sql.ts";
import { subtractFromTotals } from "./totals.sql.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import type { StoredEventContent } from "../events/events.rules.ts";
import { shownIdOf } from "../records/recordIds.rules.ts";
import type { Registration, Totals } from "./registrations.rules.ts";
import type { Tracing } from "../../runtime/tracing.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { recordEvents } from "../events/recordEvent.ts";
import { newId } from "../../runtime/newId.ts";
import { releaseRefundedTrees } from "../planting/releaseRefundedTrees.ts";

/** A refund that is decided. */
type DecidedRefund = {
  readonly registration: Pick<Registration, "id" | "importedId" | "count" | "createdAt">;
  /** Units of this refund. */
  readonly refundedCount: number;
  /** Units of the registration that are refunded after it. */
  readonly refundedSoFar: number;
  readonly request: { readonly reason: string | null; readonly idempotencyKey: string | null };
};

/** A key was used by a concurrent call, which has committed: the refunds must be decided again. */
class RefundKeyConflictError extends Error {}

const MAXIMUM_ATTEMPTS = 5;

/** Decides and records refunds again if a concurrent call has used one of their keys. */
export const retryKeyConflicts = async <Result>(run: () => Promise<Result>): Promise<Result> => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run();
    } catch (error) {
      if (!(error instanceof RefundKeyConflictError) || attempt === MAXIMUM_ATTEMPTS) {
        throw error;
      }
    }
  }
};

const refundedEvent = (
  { kind }: Owner,
  { registration, refundedCount, refundedSoFar, request: { reason } }: DecidedRefund,
): StoredEventContent => ({
  type: "registration.refunded",
  data: {
    registration_id: shownIdOf(registration),
    kind,
    count: refundedCount,
    remaining_count: registration.count - refundedSoFar,
    reason: reason ?? "",
  },
});

/**
 * Records refunds of locked registrations, each with its usage facts and its event, and returns the owner's totals after
 * them. It must be the last part of the transaction: the totals are locked last.
 * @param actor who refunds, if it is not the client
 */
export const recordRefunds = async (
  { actor, tracing }: { readonly actor?: Actor; readonly tracing?: Tracing | undefined },
  transaction: DatabaseTransactionConnection,
  owner: Owner,
  decided: readonly DecidedRefund[],
  now: Date,
): Promise<Totals> => {
  const refunds = decided.map(({ registration, refundedCount, request }) => ({
    id: newId(),
    registrationId: registration.id,
    count: refundedCount,
    registeredAt: registration.createdAt,
    reason: request.reason,
    idempotencyKey: request.idempotencyKey,
  }));
  if (owner.kind === PLANTED_KIND) {
    await releaseRefundedTrees(transaction, owner, refunds);
  }
  const keys = refunds.filter(({ idempotencyKey }) => idempotencyKey !== null).length;
  if ((await insertRefunds(transaction, owner, refunds, now, actor !== undefined)) < keys) {
    throw new RefundKeyConflictError();
  }
  const traceParent = tracing?.current() ?? null;
  if (traceParent !== null) {
    const contexts = refunds.map(({ id }) => ({ recordId: id, traceParent }));
    await insertTraceContexts(transaction, contexts);
  }
  await recordEvents(
    transaction,
    owner,
    now,
    decided.map((refund) => refundedEvent(owner, refund)),
  );
  if (actor) {
    for (const { registrationId, count } of refunds) {
      await recordAction(transaction, actor, now, {
        action: "refund.registration",
        accountId: owner.accountId,
        subject: registrationId,
        details: { count },
      });
    }
  }
  return subtractFromTotals(transaction, owner, refunds, now);
};
