import type { DatabaseTransactionConnection } from "slonik";
import { LOCKED } from "../../db/batching/groupCommit.ts";
import { newId } from "../../runtime/newId.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { Billing } from "../billing/createBilling.ts";
import type { Context, InTransaction } from "../../runtime/context.ts";
import type { NewEvent } from "../events/events.sql.ts";
import { createEvent } from "../events/recordEvent.ts";
import { releaseRefundedTrees } from "../planting/releaseRefundedTrees.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { outcomeOf, requireAll } from "../records/batches.rules.ts";
import { ownerKey, PLANTED_KIND } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import { shownIdOf } from "../records/recordIds.rules.ts";
import { findBillingCycles } from "../billing/resolveBillingCycle.ts";
import type { BillingCycle } from "../billing/usage.rules.ts";
import { decideRefund } from "./decideRefund.rules.ts";
import type { LockedRegistration } from "./decideRefund.rules.ts";
import { insertRefunds, listRefundsByKeys, lockRegistrations } from "./refunds.sql.ts";
import { readTotals } from "./totals.sql.ts";

export type RefundRequest = {
  readonly id: string;
  /** Null refunds all units that remain. */
  readonly count: number | null;
  readonly reason: string | null;
  readonly idempotencyKey: string | null;
};

export type RefundEntry = Owner &
  RefundRequest & {
    /** Null if it was not read from the processor. */
    readonly window: BillingCycle | null;
    /** When it is recorded, by default now. */
    readonly refundedAt?: string;
  };

/** A refund that was made, now or by an earlier call. */
export type RefundedItem = {
  /** As it was before. */
  readonly registration: LockedRegistration;
  readonly refundedCount: number;
  /** Units of the registration that are refunded after it. */
  readonly refundedSoFar: number;
  readonly total: number;
  readonly replayed: boolean;
};

/** The outcome of a refund that only the processor's billing cycle decides: nothing was recorded. */
export const WINDOW_UNKNOWN: unique symbol = Symbol("window unknown");

export type RefundOutcome = Outcome<RefundedItem> | typeof WINDOW_UNKNOWN | typeof LOCKED;

/** Without billing, the registrations must be of stores. */
type RefundContext = InTransaction<Context & Partial<OperatorContext>> & {
  readonly billing?: Billing;
};

type Decision = Omit<RefundedItem, "total"> & { readonly entry: RefundEntry };

const isDecision = (outcome: unknown): outcome is Decision =>
  typeof outcome === "object" && !(outcome instanceof DomainError);

const refundKeyIsTaken = (): DomainError =>
  invalidRequest("idempotency_key: belongs to the refund of another registration");

type Options = {
  readonly isAtomic?: boolean;
  /** Whether refunds of accounts with a registration that another transaction has locked are left out as `LOCKED`. */
  readonly skipsLocked?: boolean;
  readonly isDryRun?: boolean;
};

const decideAll = async (
  { clock, billing, actor }: RefundContext,
  transaction: DatabaseTransactionConnection,
  entries: readonly RefundEntry[],
  { skipsLocked = false }: Options,
): Promise<readonly (Exclude<RefundOutcome, RefundedItem> | Decision)[]> => {
  const registrations = await lockRegistrations(transaction, entries, { skipsLocked });
  const lockedAccounts = new Set(
    entries
      .filter((_, place) => skipsLocked && registrations.get(place) === null)
      .map(({ accountId }) => accountId),
  );
  // Under the registrations' locks, concurrent calls with these keys for them have committed.
  const known = entries.some(({ idempotencyKey }) => idempotencyKey !== null)
    ? await listRefundsByKeys(transaction, entries, actor !== undefined)
    : new Map<number, never>();
  const unknown = entries.filter(
    ({ window }, place) =>
      window === null && registrations.get(place)?.hasUsage === true && !known.has(place),
  );
  const owners = [...new Map(unknown.map((entry) => [ownerKey(entry), entry])).values()];
  const windows =
    billing && owners.length > 0
      ? await findBillingCycles({ db: transaction, clock, billing }, owners)
      : new Map<string, never>();
  const now = clock.now();
  const keys = new Map<string, { readonly registrationId: string; readonly count: number }>();
  const refunded = new Map<string, number>();
  return entries.map((entry, place) => {
    if (lockedAccounts.has(entry.accountId)) {
      return LOCKED;
    }
    const registration = registrations.get(place);
    if (!registration) {
      return new DomainError("record_not_found", `failed to find ${entry.kind} registration`);
    }
    const before = refunded.get(registration.id) ?? registration.refundedCount;
    const decisionOf = (refundedCount: number, replayed: boolean): Decision => {
      const refundedSoFar = before + (replayed ? 0 : refundedCount);
      return { entry, registration, refundedCount, refundedSoFar, replayed };
    };
    const { idempotencyKey } = entry;
    const key = idempotencyKey === null ? null : `${ownerKey(entry)}/${idempotencyKey}`;
    const earlier = key === null ? undefined : (known.get(place) ?? keys.get(key));
    if (earlier) {
      return earlier.registrationId === registration.id
        ? decisionOf(earlier.count, true)
        : refundKeyIsTaken();
    }
    const window = entry.window ?? windows.get(ownerKey(entry)) ?? null;
    if (registration.hasUsage && window === null) {
      return WINDOW_UNKNOWN;
    }
    return outcomeOf(() => {
      const refundable = { ...registration, refundedCount: before, kind: entry.kind };
      const count = decideRefund(refundable, entry.count, window, now);
      refunded.set(registration.id, before + count);
      if (key !== null) {
        keys.set(key, { registrationId: registration.id, count });
      }
      return decisionOf(count, false);
    });
  });
};

const refundedEvent = ({ entry, registration, refundedCount, refundedSoFar }: Decision): NewEvent =>
  createEvent(entry, {
    type: "registration.refunded",
    data: {
      registration_id: shownIdOf(registration),
      kind: entry.kind,
      count: refundedCount,
      remaining_count: registration.count - refundedSoFar,
      // A store's may name a customer, and no one reads it: webhooks leave it out, and stores have no feed.
      reason: registration.unitPriceCents === null ? (entry.reason ?? "") : "",
    },
  });

/** Records refunds of locked registrations, and returns their owners' totals after them by `ownerKey`. */
const recordAll = async (
  { clock, actor }: RefundContext,
  transaction: DatabaseTransactionConnection,
  decisions: readonly Decision[],
): Promise<ReadonlyMap<string, number>> => {
  if (decisions.length === 0) {
    return new Map();
  }
  const now = clock.now();
  const refunds = decisions.map(({ entry, registration, refundedCount }) => ({
    ...entry,
    id: newId(),
    registrationId: registration.id,
    count: refundedCount,
    createdAt: entry.refundedAt ?? now.toISOString(),
  }));
  const trees = refunds.filter(({ kind }) => kind === PLANTED_KIND);
  if (trees.length > 0) {
    await releaseRefundedTrees(transaction, trees);
  }
  if (actor) {
    for (const { accountId, registrationId, count } of refunds) {
      await recordAction(transaction, actor, now, {
        action: "refund.registration",
        accountId,
        subject: registrationId,
        details: { count },
      });
    }
  }
  const events = decisions.map(refundedEvent);
  const { totals, keys } = await insertRefunds(
    transaction,
    refunds,
    actor !== undefined,
    events,
    now,
  );
  if (keys < refunds.filter(({ idempotencyKey }) => idempotencyKey !== null).length) {
    // A concurrent call has used one, which cannot be for a registration that is locked here.
    throw refundKeyIsTaken();
  }
  return totals;
};

/**
 * Refunds units of registrations in one transaction, in their order, each as if it were a call of its own.
 * @throws BatchRejectedError
 * @throws DomainError request_invalid if a concurrent call has just used one of the keys for another registration
 */
export const writeRefunds = (
  context: RefundContext,
  entries: readonly RefundEntry[],
  options: Options = {},
): Promise<readonly RefundOutcome[]> =>
  context.db.transaction(async (transaction) => {
    const outcomes = await decideAll(context, transaction, entries, options);
    if (options.isAtomic === true && !outcomes.includes(WINDOW_UNKNOWN)) {
      requireAll(outcomes);
    }
    const decisions = outcomes.filter(isDecision);
    const made = decisions.filter(({ replayed }) => !replayed && options.isDryRun !== true);
    const totals = new Map(await recordAll(context, transaction, made));
    for (const { entry } of decisions) {
      if (!totals.has(ownerKey(entry))) {
        const { all } = await readTotals(transaction, entry, context.clock.now());
        totals.set(ownerKey(entry), all);
      }
    }
    const results = outcomes.toReversed().map((outcome): RefundOutcome => {
      if (!isDecision(outcome)) {
        return outcome;
      }
      const { entry, ...item } = outcome;
      const total = totals.get(ownerKey(entry)) ?? 0;
      totals.set(ownerKey(entry), total + (item.replayed ? 0 : item.refundedCount));
      return Object.assign(item, { total });
    });
    return results.toReversed();
  });
