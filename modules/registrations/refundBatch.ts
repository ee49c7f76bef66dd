import { listRefundsByKeys, lockRegistrations } from "./refunds.sql.ts";
import { lockNamed } from "../records/ownedRecords.sql.ts";
import type { KeyedRefund, LockedRegistration } from "./refunds.sql.ts";
import { readTotals } from "./totals.sql.ts";
import type { AccountMode, Owner } from "../records/owner.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { countBack, isAccepted, outcomeOf, requireAll } from "../records/batches.rules.ts";
import type { RefundWindow } from "./decideRefund.rules.ts";
import { decideRefund } from "./decideRefund.rules.ts";
import { readRefundWindow } from "./readRefundWindow.ts";
import { recordRefunds, retryKeyConflicts } from "./recordRefunds.ts";
import { refundKeyIsTaken, refundNotFound } from "./refundRegistration.ts";
import type { RefundRequest } from "./refundRegistration.ts";
import type { RegistrationContext } from "./context.ts";

/** A refund of a batch. The registration itself is read when it is needed, because a batch may have a thousand of them. */
type RefundedItem = {
  readonly registrationId: string;
  readonly refundedCount: number;
  /** Units of the registration that were refunded until then. */
  readonly refundedSoFar: number;
  /** The owner's total after the refund. */
  readonly total: number;
  readonly replayed: boolean;
};

/** A refund that is decided. Its total is known when all are. */
type Decision = Omit<RefundedItem, "total"> & {
  readonly request: RefundRequest;
  readonly registration: LockedRegistration;
};

const keysOf = (items: readonly Outcome<RefundRequest>[]): readonly string[] =>
  items.flatMap((item) => (isAccepted(item) ? (item.idempotencyKey ?? []) : []));

/** Decides the items in their order, as if each were a call of its own. */
const createDecider = (
  owner: Owner,
  registrations: ReadonlyMap<string, LockedRegistration>,
  known: readonly KeyedRefund[],
  window: RefundWindow | null,
  now: Date,
) => {
  const keys = new Map<string, Omit<KeyedRefund, "idempotencyKey">>(
    known.map(({ idempotencyKey, ...refund }) => [idempotencyKey, refund]),
  );
  const refunded = new Map<string, number>();
  /** @throws DomainError as `refundRegistration` */
  return (request: RefundRequest): Decision => {
    const registration = registrations.get(request.id);
    if (!registration) {
      throw refundNotFound(owner);
    }
    const { id: registrationId } = registration;
    const before = refunded.get(registrationId) ?? registration.refundedCount;
    const earlier = request.idempotencyKey === null ? undefined : keys.get(request.idempotencyKey);
    if (earlier) {
      if (earlier.registrationId !== registrationId) {
        throw refundKeyIsTaken();
      }
      return {
        request,
        registration,
        registrationId,
        refundedCount: earlier.count,
        refundedSoFar: before,
        replayed: true,
      };
    }
    if (window === null) {
      throw new Error(`A refund of registration ${registrationId} was deleted in the meantime.`);
    }
    const count = decideRefund(
      { ...registration, refundedCount: before, kind: owner.kind },
      request.count,
      window,
      now,
    );
    refunded.set(registrationId, before + count);
    if (request.idempotencyKey !== null) {
      keys.set(request.idempotencyKey, { registrationId, count });
    }
    return {
      request,
      registration,
      registrationId,
      refundedCount: count,
      refundedSoFar: before + count,
      replayed: false,
    };
  };
};

const refundAll = (
  { db, clock, tracing }: RegistrationContext,
  owner: Owner,
  items: readonly Outcome<RefundRequest>[],
  isAtomic: boolean,
  window: RefundWindow | null,
): Promise<readonly Outcome<RefundedItem>[]> =>
  db.transaction(async (transaction) => {
    const given = items.filter(isAccepted).map(({ id }) => id);
    const registrations = await lockNamed(
      transaction,
      "registration",
      owner,
      given,
      lockRegistrations,
    );
    // Under the registrations' locks, concurrent calls with these keys for them have committed.
    const known = await listRefundsByKeys(transaction, owner, keysOf(items));
    const now = clock.now();
    const decide = createDecider(owner, registrations, known, window, now);
    const outcomes = items.map((item) => (isAccepted(item) ? outcomeOf(() => decide(item)) : item));
    if (isAtomic) {
      requireAll(outcomes);
    }
    const decisions = outcomes.filter(isAccepted).filter(({ replayed }) => !replayed);
    const { all } =
      decisions.length > 0
        ? await recordRefunds({ tracing }, transaction, owner, decisions, now)
        : await readTotals(transaction, owner, now);
    return countBack(
      outcomes,
      all,
      ({ replayed, refundedCount }) => (replayed ? 0 : -refundedCount),
      ({ registrationId, refundedCount, refundedSoFar, replayed }, total): RefundedItem => ({
        registrationId,
        refundedCount,
        refundedSoFar,
        replayed,
        total,
      }),
    );
  });

/**
 * Refunds units of registrations of one kind in one transaction, in their order, each as `refundRegistration` would.
 * @param items each refund, or why it is rejected already
 * @param isAtomic whether nothing is recorded if any item is rejected; otherwise the other items are recorded
 * @throws BatchRejectedError
 */
export const refundBatch = async (
  context: RegistrationContext,
  caller: AccountMode,
  owner: Owner,
  items: readonly Outcome<RefundRequest>[],
  isAtomic: boolean,
): Promise<readonly Outcome<RefundedItem>[]> => {
  if (isAtomic) {
    requireAll(items);
  }
  const keys = keysOf(items);
  const known = await listRefundsByKeys(context.db, owner, keys);
  const knownKeys = new Set(known.map(({ idempotencyKey }) => idempotencyKey));
  const requests = items.filter(isAccepted);
  const isReplay = requests.every(
    ({ idempotencyKey }) => idempotencyKey !== null && knownKeys.has(idempotencyKey),
  );
  // A replay does not depend on the processor.
  const window = isReplay ? null : await readRefundWindow(context, owner);
  return context.guard.writeBatch(caller, keys, () =>
    context.writer.runAlone(owner.accountId, requests.length, () =>
      retryKeyConflicts(() => refundAll(context, owner, items, isAtomic, window)),
    ),
  );
};
