import type { CommonQueryMethods } from "slonik";
import type { Owner } from "../records/owner.rules.ts";
import { findRefundByKey } from "./refunds.sql.ts";
import { findOwnRegistration, lockRegistration } from "./registrations.sql.ts";
import { readTotals } from "./totals.sql.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import { decideRefund } from "./decideRefund.rules.ts";
import { refundIdOf } from "../../runtime/temporalNames.rules.ts";
import type { RefundWindow } from "./decideRefund.rules.ts";
import type { Registration, Totals } from "./registrations.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { BillingContext } from "../billing/context.ts";
import type { Context } from "../../runtime/context.ts";
import { findRefundWindow, readRefundWindow } from "./readRefundWindow.ts";
import { recordRefunds, retryKeyConflicts } from "./recordRefunds.ts";
import { findRefundProgress } from "../billing/refundUsage.sql.ts";
import { ownerKey } from "../records/owner.rules.ts";
import { createAccountQueue } from "../../db/batching/createAccountQueue.ts";
import type { AccountQueue } from "../../db/batching/createAccountQueue.ts";

export type Refunded = {
  /** The registration after the refund; in a replay, as it is now. */
  readonly registration: Registration;
  /** Units of this refund. */
  readonly refundedCount: number;
  readonly totals: Totals;
  /** The id of the workflow that completes all refunds of the registration. */
  readonly refundId: string;
  /** Whether an earlier call made the refund. */
  readonly replayed: boolean;
};

export type RefundRequest = {
  readonly id: string;
  /** Null refunds all units that remain. */
  readonly count: number | null;
  readonly reason: string | null;
  /** Null for a refund without a key. */
  readonly idempotencyKey: string | null;
};

export const refundNotFound = ({ kind }: Owner): DomainError =>
  new DomainError("record_not_found", `failed to find ${kind} registration`);

export const refundKeyIsTaken = (): DomainError =>
  invalidRequest("idempotency_key: belongs to the refund of another registration");

/**
 * Returns the refund that an earlier call made with the key, or null.
 * @throws DomainError request_invalid if it refunded another registration
 */
const findEarlierRefund = async (
  { clock, actor }: Context & Partial<OperatorContext>,
  db: CommonQueryMethods,
  owner: Owner,
  registration: Registration,
  { idempotencyKey }: RefundRequest,
): Promise<Refunded | null> => {
  const earlier =
    idempotencyKey === null
      ? null
      : await findRefundByKey(db, owner, idempotencyKey, actor !== undefined);
  if (!earlier) {
    return null;
  }
  if (earlier.registrationId !== registration.id) {
    throw refundKeyIsTaken();
  }
  return {
    registration,
    refundedCount: earlier.count,
    totals: await readTotals(db, owner, clock.now()),
    refundId: refundIdOf(registration.id),
    replayed: true,
  };
};

/** Returns the refund that an earlier call made with the request's idempotency key, or null. */
export const findOriginalRefund = async (
  context: Context & Partial<OperatorContext>,
  owner: Owner,
  request: RefundRequest,
): Promise<Refunded | null> => {
  const registration =
    request.idempotencyKey === null
      ? null
      : await findOwnRegistration(context.db, owner, request.id);
  return registration ? findEarlierRefund(context, context.db, owner, registration, request) : null;
};

/** How single refunds at the same time wait for each other. */
export type RefundQueue = {
  /** Runs the work of a refund in the database. */
  readonly run: AccountQueue;
  /** As `readRefundWindow`. */
  readonly readWindow: (owner: Owner) => Promise<RefundWindow>;
};

/** For programs that make one refund at a time. */
const withoutQueue = (context: BillingContext): RefundQueue => ({
  run: (_accountId, work) => work(),
  readWindow: (owner) => readRefundWindow(context, owner),
});

/**
 * Creates the queue of a process's single refunds. Those of an account wait for each other without a connection, because they would
 * wait for the same rows. Those of an owner that need the processor share a call to it, which can take seconds.
 */
export const createRefundQueue = (context: BillingContext): RefundQueue => {
  const reading = new Map<string, ReturnType<RefundQueue["readWindow"]>>();
  const read: RefundQueue["readWindow"] = async (owner) => {
    try {
      return await readRefundWindow(context, owner);
    } finally {
      reading.delete(ownerKey(owner));
    }
  };
  return {
    run: createAccountQueue(),
    readWindow: (owner) => {
      const window = reading.get(ownerKey(owner)) ?? read(owner);
      reading.set(ownerKey(owner), window);
      return window;
    },
  };
};

/** @param window read before, because it may be a call to the processor */
const refundWithin = (
  context: BillingContext & Partial<OperatorContext>,
  owner: Owner,
  request: RefundRequest,
  window: RefundWindow,
): Promise<Refunded> =>
  retryKeyConflicts(() =>
    context.db.transaction(async (transaction) => {
      const found = await lockRegistration(transaction, owner, request.id);
      if (!found) {
        throw refundNotFound(owner);
      }
      const { registration, hasUsage } = found;
      // Under the registration's lock, a concurrent call with the key has committed.
      const earlier = await findEarlierRefund(context, transaction, owner, registration, request);
      if (earlier) {
        return earlier;
      }
      const now = context.clock.now();
      const refundedCount = decideRefund(
        { ...registration, kind: owner.kind, hasUsage },
        request.count,
        window,
        now,
      );
      const refundedSoFar = registration.refundedCount + refundedCount;
      const decided = { registration, refundedCount, refundedSoFar, request };
      return {
        registration: { ...registration, refundedCount: refundedSoFar },
        refundedCount,
        totals: await recordRefunds(context, transaction, owner, [decided], now),
        refundId: refundIdOf(registration.id),
        replayed: false,
      };
    }),
  );

/**
 * Refunds units of a registration: one transaction changes the record and the totals and adds a negative usage fact. An
 * idempotency key of a client or an operator belongs to the refund that it was first used for: a repeated call returns that refund, whatever else
 * it contains, even if the registration could no longer be refunded.
 * @param context.queue if several refunds run at the same time
 * @throws DomainError record_not_found, usage_not_on_file, outside_billing_cycle or request_invalid
 * @throws UnavailableError if the processor has the billing cycle and cannot be used
 */
export const refundRegistration = async (
  {
    queue,
    ...context
  }: BillingContext & Partial<OperatorContext> & { readonly queue?: RefundQueue },
  owner: Owner,
  request: RefundRequest,
): Promise<Refunded> => {
  const { run, readWindow } = queue ?? withoutQueue(context);
  const done = await run(owner.accountId, async () => {
    // Before anything else, so that an unknown id costs one query.
    const known = await findOwnRegistration(context.db, owner, request.id);
    if (!known) {
      throw refundNotFound(owner);
    }
    // Before the billing cycle is read from the processor: a replay does not depend on it.
    const replay = await findEarlierRefund(context, context.db, owner, known, request);
    if (replay) {
      return replay;
    }
    const window = await findRefundWindow(context, owner);
    return window && refundWithin(context, owner, request, window);
  });
  if (done) {
    return done;
  }
  // Nothing else waits for the processor.
  const window = await readWindow(owner);
  return run(owner.accountId, () => refundWithin(context, owner, request, window));
};

/** `failed`: an operator must retry or waive its usage. */
export type RefundState = "pending" | "settled" | "failed";

/** Returns how far the refunds of a registration are with the processor, all of them together. */
export const checkRefund = async (
  { db }: { readonly db: CommonQueryMethods },
  registrationId: string,
): Promise<RefundState> => {
  const progress = await findRefundProgress(db, registrationId);
  if (progress?.pending) {
    return "pending";
  }
  return progress?.failed ? "failed" : "settled";
};
