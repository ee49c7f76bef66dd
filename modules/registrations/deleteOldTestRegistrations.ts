import type { DatabasePool } from "slonik";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import { deleteUsage, listUnsettledSeconds } from "../billing/usageFacts.sql.ts";
import { lockStream } from "../billing/streams.sql.ts";
import { deleteEmptyTestOrders } from "../planting/orders.sql.ts";
import type { Span } from "./oldTestRegistrations.sql.ts";
import {
  deleteRegistrations,
  findBounds,
  listTestOwners,
  listWithWaitingRefund,
  lockOldRegistrations,
} from "./oldTestRegistrations.sql.ts";
import { subtractFromTotals } from "./totals.sql.ts";
import { timeOf } from "../billing/usage.rules.ts";
import { secondOf } from "../../runtime/durations.rules.ts";
import { deleteInBatches } from "../../db/batching/deleteInBatches.ts";
import { releaseRefundedTrees } from "../planting/releaseRefundedTrees.ts";

/** Deleting this many takes tens of milliseconds; the account's test writes wait for the transaction. */
const BATCH_REGISTRATIONS = 500;
const BATCH_ORDERS = 100;

const startOfNextMonth = (time: Date): Date =>
  new Date(Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + 1, 1));

/**
 * Returns the next whole seconds of one month that have about one batch of registrations, or null. A second with more is
 * one batch, because its usage belongs together.
 */
const findNextSpan = async (
  db: DatabasePool,
  owner: Owner,
  rest: Span,
  batchSize: number,
): Promise<Span | null> => {
  const { first, last } = await findBounds(db, owner, rest, batchSize);
  if (first === null) {
    return null;
  }
  const from = timeOf(secondOf(first));
  const ends = [rest.until, startOfNextMonth(first)];
  if (last !== null) {
    ends.push(timeOf(Math.max(secondOf(last), secondOf(first) + 1)));
  }
  return { from, until: new Date(Math.min(...ends.map((end) => end.getTime()))) };
};

/** Deletes the registrations of a span whose usage and refunds are settled, and returns their number. */
const deleteSpan = (db: DatabasePool, owner: Owner, span: Span): Promise<number> =>
  db.transaction(async (transaction) => {
    await lockStream(transaction, owner);
    const locked = await lockOldRegistrations(transaction, owner, span);
    if (locked === null || locked.length === 0) {
      return 0;
    }
    const unsettled = new Set(
      await listUnsettledSeconds(transaction, owner, {
        start: secondOf(span.from),
        end: secondOf(span.until),
      }),
    );
    const waiting = new Set(
      await listWithWaitingRefund(
        transaction,
        locked.map(({ id }) => id),
      ),
    );
    for (const { id, createdAt } of locked) {
      if (waiting.has(id)) {
        unsettled.add(secondOf(createdAt));
      }
    }
    const deleted = locked.filter(({ createdAt }) => !unsettled.has(secondOf(createdAt)));
    const ids = deleted.map(({ id }) => id);
    const remaining = deleted.reduce((sum, each) => sum + each.remaining, 0);
    // The locks are requested in the order of a refund.
    if (owner.kind === PLANTED_KIND) {
      await releaseRefundedTrees(
        transaction,
        deleted.map(({ id, remaining: count }) => ({ registrationId: id, count })),
      );
    }
    const seconds = [...new Set(deleted.map(({ createdAt }) => secondOf(createdAt)))];
    await deleteUsage(transaction, owner, seconds);
    await deleteRegistrations(transaction, ids);
    await subtractFromTotals(transaction, owner, [{ registeredAt: span.from, count: remaining }]);
    return ids.length;
  });

const deleteOwnersRegistrations = async (
  db: DatabasePool,
  owner: Owner,
  until: Date,
  { batchSize, signal }: { readonly batchSize: number; readonly signal: AbortSignal },
): Promise<number> => {
  let deleted = 0;
  let from = new Date(0);
  for (;;) {
    signal.throwIfAborted();
    const span = await findNextSpan(db, owner, { from, until }, batchSize);
    if (span === null) {
      return deleted;
    }
    deleted += await deleteSpan(db, owner, span);
    // What is not settled stays until another night.
    from = span.until;
  }
};

/**
 * Deletes the test registrations that are older than a time, with their refunds, idempotency keys and usage, and the
 * planting orders that nothing is left of. Totals and planted trees are lowered in the same transaction, so that all
 * sums stay equal. Each transaction deletes whole seconds, because usage is recorded by second. It may be interrupted and
 * repeated.
 * @returns the numbers of deleted registrations and planting orders
 */
export const deleteOldTestRegistrations = async (
  db: DatabasePool,
  before: Date,
  signal: AbortSignal,
  batchSize = BATCH_REGISTRATIONS,
): Promise<{ readonly registrations: number; readonly plantingOrders: number }> => {
  const until = timeOf(secondOf(before));
  let registrations = 0;
  let plantingOrders = 0;
  for (const owner of await listTestOwners(db)) {
    registrations += await deleteOwnersRegistrations(db, owner, until, { batchSize, signal });
    if (owner.kind === PLANTED_KIND) {
      plantingOrders += await deleteInBatches(
        (limit) =>
          db.transaction((transaction) =>
            deleteEmptyTestOrders(transaction, owner.accountId, limit),
          ),
        signal,
        BATCH_ORDERS,
      );
    }
  }
  return { registrations, plantingOrders };
};
