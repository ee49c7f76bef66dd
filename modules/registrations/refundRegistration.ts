import { GroupCommit } from "../../db/batching/groupCommit.ts";
import { createLookups } from "../../db/batching/joinCalls.ts";
import { mustExist } from "../../runtime/errors.rules.ts";
import { refundIdOf } from "../../runtime/temporalNames.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { BillingContext } from "../billing/context.ts";
import { resolveBillingCycle } from "../billing/resolveBillingCycle.ts";
import type { BillingCycle } from "../billing/usage.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { requireDecided, resultOfOne } from "../records/batches.rules.ts";
import { ownerKey } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import { listRegistrationsByIds } from "./registrations.sql.ts";
import { WINDOW_UNKNOWN, writeRefunds } from "./writeRefunds.ts";
import type { RefundedItem, RefundEntry, RefundOutcome, RefundRequest } from "./writeRefunds.ts";

/** A refund takes long, and the first one of a batch waits for the last. */
const MAXIMUM_BATCH = 100;

/**
 * Refunds units of one owner's registrations in one transaction, in their order. An idempotency key of a client or an
 * operator belongs to the refund that it was first used for: a repeated call returns that refund, whatever else it
 * contains, even if the registration could no longer be refunded.
 * @param readWindow called if only the processor's billing cycle decides a refund
 */
const refundUnits = async (
  owner: Owner,
  requests: readonly RefundRequest[],
  write: (entries: readonly RefundEntry[]) => Promise<readonly RefundOutcome[]>,
  readWindow: (owner: Owner) => Promise<BillingCycle>,
): Promise<readonly Outcome<RefundedItem>[]> => {
  const writeIn = (window: BillingCycle | null): Promise<readonly RefundOutcome[]> =>
    write(requests.map((request) => ({ ...owner, ...request, window })));
  let outcomes = await writeIn(null);
  if (outcomes.includes(WINDOW_UNKNOWN)) {
    // Nothing else waits for the processor.
    outcomes = await writeIn(await readWindow(owner));
  }
  return requireDecided<RefundedItem>(outcomes);
};

/**
 * Refunds units of a registration for an operator.
 * @throws DomainError record_not_found, usage_not_on_file, outside_billing_cycle or request_invalid
 * @throws UnavailableError if the processor has the billing cycle and cannot be used
 */
export const refundRegistration = async (
  context: BillingContext & Partial<OperatorContext>,
  owner: Owner,
  request: RefundRequest,
  options: { readonly isDryRun?: boolean } = {},
): Promise<RefundedItem> => {
  const write = (entries: readonly RefundEntry[]) => writeRefunds(context, entries, options);
  const readWindow = () => resolveBillingCycle(context, owner);
  return resultOfOne(await refundUnits(owner, [request], write, readWindow));
};

/** Creates what writes the refunds of a process, and reads the registrations that they change. */
export const createRefundWriter = (context: BillingContext) => {
  const queue = new GroupCommit<RefundEntry, RefundOutcome>({
    write: (entries, { isAlone }) => writeRefunds(context, entries, { skipsLocked: !isAlone }),
    accountOf: ({ accountId }) => accountId,
    maximumBatch: MAXIMUM_BATCH,
  });
  const reading = new Map<string, Promise<BillingCycle>>();
  /** Calls of an owner at the same time share one to the processor, which can take seconds. */
  const readWindow = (owner: Owner): Promise<BillingCycle> => {
    const name = ownerKey(owner);
    const window =
      reading.get(name) ?? resolveBillingCycle(context, owner).finally(() => reading.delete(name));
    reading.set(name, window);
    return window;
  };
  const readRegistration = createLookups(async (ids) => {
    const found = await listRegistrationsByIds(context.db, ids);
    return new Map(found.map((registration) => [registration.id, registration]));
  });
  return {
    /**
     * Refunds units of an owner's registrations: one together with those of other accounts that wait, several in a
     * transaction of their own.
     * @param isAtomic whether nothing is recorded if any is rejected; otherwise the others are recorded
     * @throws BatchRejectedError
     * @throws UnavailableError if the processor has the billing cycle and cannot be used
     */
    refundAll: (owner: Owner, requests: readonly RefundRequest[], isAtomic: boolean) => {
      const write = async (entries: readonly RefundEntry[]): Promise<readonly RefundOutcome[]> => {
        const [first] = entries;
        return first && entries.length === 1 && !isAtomic
          ? [await queue.submit(first)]
          : queue.runAlone(owner.accountId, entries.length, () =>
              writeRefunds(context, entries, { isAtomic }),
            );
      };
      return refundUnits(owner, requests, write, readWindow);
    },
    /** Returns refunds with their registrations after them (in a replay, as they are now) and the ids of their workflows. */
    readRefunded: (items: readonly RefundedItem[]) =>
      Promise.all(
        items.map(async ({ registration: { id }, refundedCount, refundedSoFar, total }) => {
          const registration = mustExist(
            await readRegistration(id),
            `Registration ${id} was deleted in the meantime.`,
          );
          return {
            registration: { ...registration, refundedCount: refundedSoFar },
            refundedCount,
            total,
            refundId: refundIdOf(id),
          };
        }),
      ),
  };
};

export type RefundWriter = ReturnType<typeof createRefundWriter>;
