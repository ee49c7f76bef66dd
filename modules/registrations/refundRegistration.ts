import { GroupCommit } from "../../db/batching/groupCommit.ts";
import { createLookups } from "../../db/batching/joinCalls.ts";
import { refundIdOf } from "../../runtime/temporalNames.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { BillingContext } from "../billing/context.ts";
import { resolveBillingCycle } from "../billing/resolveBillingCycle.ts";
import type { BillingCycle } from "../billing/usage.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { completeOutcomes, isAccepted, requireAll, resultOfOne } from "../records/batches.rules.ts";
import { ownerKey } from "../records/owner.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import type { Registration } from "./registrations.rules.ts";
import { listRegistrationsByIds } from "./registrations.sql.ts";
import { WINDOW_UNKNOWN, writeRefunds } from "./writeRefunds.ts";
import type { RefundedItem, RefundEntry, RefundOutcome, RefundRequest } from "./writeRefunds.ts";

/** A refund takes long, and the first one of a batch waits for the last. */
const MAXIMUM_BATCH = 100;

/** Creates what writes the refunds of a process, and reads the registrations that they change. */
export const createRefundWriter = (context: BillingContext) => {
  const queue = new GroupCommit<RefundEntry, RefundOutcome>({
    write: (entries, { isAlone }) => writeRefunds(context, entries, { skipsLocked: !isAlone }),
    accountOf: ({ accountId }) => accountId,
    maximumBatch: MAXIMUM_BATCH,
  });
  const reading = new Map<string, Promise<BillingCycle>>();
  return {
    /**
     * Refunds units of one account's registrations: one together with those of other accounts that wait, several in a
     * transaction of their own.
     * @throws BatchRejectedError for several, if `isAtomic` and one is rejected
     */
    write: async (
      entries: readonly RefundEntry[],
      isAtomic: boolean,
    ): Promise<readonly RefundOutcome[]> => {
      const [first] = entries;
      if (first === undefined) {
        return [];
      }
      return entries.length === 1
        ? [await queue.submit(first)]
        : queue.runAlone(first.accountId, entries.length, () =>
            writeRefunds(context, entries, { isAtomic }),
          );
    },
    /** As `resolveBillingCycle`. Calls of an owner at the same time share one to the processor, which can take seconds. */
    readWindow: (owner: Owner): Promise<BillingCycle> => {
      const name = ownerKey(owner);
      const window =
        reading.get(name) ??
        resolveBillingCycle(context, owner).finally(() => reading.delete(name));
      reading.set(name, window);
      return window;
    },
    /** Returns a registration of any owner. Calls at the same time share a statement. */
    readRegistration: createLookups(async (ids) => {
      const found = await listRegistrationsByIds(context.db, ids);
      return new Map(found.map((registration) => [registration.id, registration]));
    }),
  };
};

export type RefundWriter = ReturnType<typeof createRefundWriter>;

/**
 * Refunds units of one owner's registrations in one transaction, in their order. An idempotency key of a client or an
 * operator belongs to the refund that it was first used for: a repeated call returns that refund, whatever else it
 * contains, even if the registration could no longer be refunded.
 * @param context.refunds if several calls run at the same time
 * @param given each refund, or why it is rejected already
 * @param options.isAtomic whether nothing is recorded if any item is rejected; otherwise the other items are recorded
 * @throws BatchRejectedError
 * @throws UnavailableError if the processor has the billing cycle and cannot be used
 */
export const refundAll = async (
  {
    refunds,
    ...context
  }: BillingContext & Partial<OperatorContext> & { readonly refunds?: RefundWriter },
  { accountId, mode, kind }: Owner,
  given: readonly Outcome<RefundRequest>[],
  { isAtomic = false, isDryRun = false } = {},
): Promise<readonly Outcome<RefundedItem>[]> => {
  if (isAtomic) {
    requireAll(given);
  }
  const owner = { accountId, mode, kind };
  const requests = given.filter(isAccepted);
  const write = (window: BillingCycle | null): Promise<readonly RefundOutcome[]> => {
    const entries = requests.map((request) => Object.assign({ window }, request, owner));
    return refunds && !isDryRun
      ? refunds.write(entries, isAtomic)
      : writeRefunds(context, entries, { isAtomic, isDryRun });
  };
  let outcomes = await write(null);
  if (outcomes.includes(WINDOW_UNKNOWN)) {
    // Nothing else waits for the processor.
    outcomes = await write(
      await (refunds?.readWindow(owner) ?? resolveBillingCycle(context, owner)),
    );
  }
  const completed = completeOutcomes<RefundRequest, RefundedItem>(given, outcomes);
  if (isAtomic) {
    requireAll(completed);
  }
  return completed;
};

/**
 * @throws DomainError record_not_found, usage_not_on_file, outside_billing_cycle or request_invalid
 * @throws UnavailableError if the processor has the billing cycle and cannot be used
 */
export const refundRegistration = async (
  context: Parameters<typeof refundAll>[0],
  owner: Owner,
  request: RefundRequest,
  options: { readonly isDryRun?: boolean } = {},
): Promise<RefundedItem> => resultOfOne(await refundAll(context, owner, [request], options));

export type Refunded = Pick<RefundedItem, "refundedCount" | "total"> & {
  /** The registration after the refund; in a replay, as it is now. */
  readonly registration: Registration;
  /** The id of the workflow that completes all refunds of the registration. */
  readonly refundId: string;
};

export const readRefunded = (
  { readRegistration }: Pick<RefundWriter, "readRegistration">,
  items: readonly RefundedItem[],
): Promise<readonly Refunded[]> =>
  Promise.all(
    items.map(async ({ registration: { id }, refundedCount, refundedSoFar, total }) => {
      const registration = await readRegistration(id);
      if (!registration) {
        throw new Error(`Registration ${id} was deleted in the meantime.`);
      }
      return {
        registration: { ...registration, refundedCount: refundedSoFar },
        refundedCount,
        total,
        refundId: refundIdOf(id),
      };
    }),
  );
