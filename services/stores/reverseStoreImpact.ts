import type { DatabaseTransactionConnection } from "slonik";
import { v7 as newId } from "uuid";
import { insertBalanceEntries } from "../../db/stores/storeBalances.ts";
import type { ReversibleRecord } from "../../db/registrations/storeRegistrations.ts";
import { lockReversible, reverseRegistrations } from "../../db/registrations/storeRegistrations.ts";
import { subtractFromTotals } from "../../db/registrations/totals.ts";
import type { Kind } from "../../domain/accounts/accounts.ts";
import type { ImpactFilter } from "../../domain/stores/customers.ts";
import { DomainError } from "../../domain/errors.ts";
import type { Owner } from "../../domain/registrations/registrations.ts";
import { monthOf } from "../../domain/registrations/registrations.ts";
import type { StoreAnswer, StoreWrite } from "../../domain/stores/storeWrites.ts";
import { releaseRefundedTrees } from "../planting/releaseRefundedTrees.ts";
import type { StoreWriteDependencies } from "./runStoreWrite.ts";
import { runStoreWrite } from "./runStoreWrite.ts";

const PAGE_RECORDS = 500;
/** What one transaction may hold; who takes back more does so in parts. */
const MAXIMUM_RECORDS = 10_000;

type Taken = { readonly record: ReversibleRecord; readonly count: number };

/** The newest units, as many as are asked for, with the records that they belong to. */
const takeNewest = async (
  transaction: DatabaseTransactionConnection,
  owner: Owner,
  filter: ImpactFilter,
  quantity: number,
): Promise<readonly Taken[]> => {
  const taken: Taken[] = [];
  let missing = quantity;
  let after: ReversibleRecord | null = null;
  while (missing > 0) {
    if (taken.length >= MAXIMUM_RECORDS) {
      throw new DomainError(
        "request_invalid",
        `quantity: the newest ${quantity - missing} units fill ${taken.length} records, the most at a time; reverse the rest in another call`,
      );
    }
    const page: readonly ReversibleRecord[] = await lockReversible(transaction, owner, filter, {
      after,
      limit: PAGE_RECORDS,
    });
    for (const record of page) {
      const count = Math.min(record.remaining, missing);
      if (count > 0) {
        taken.push({ record, count });
        missing -= count;
      }
    }
    after = page.at(-1) ?? null;
    if (missing > 0 && page.length < PAGE_RECORDS) {
      throw new DomainError(
        "request_invalid",
        `quantity: only ${quantity - missing} of the matching units remain to be reversed`,
      );
    }
  }
  return taken;
};

/** What is left of each month's total goes with the month in which the units were registered. */
const subtractByMonth = async (
  transaction: DatabaseTransactionConnection,
  owner: Owner,
  taken: readonly Taken[],
): Promise<void> => {
  const months = new Map<string, { readonly registeredAt: Date; readonly count: number }>();
  for (const { record, count } of taken) {
    const month = monthOf(record.createdAt);
    const known = months.get(month);
    months.set(month, { registeredAt: record.createdAt, count: count + (known?.count ?? 0) });
  }
  for (const { registeredAt, count } of months.values()) {
    await subtractFromTotals(transaction, owner, registeredAt, count);
  }
};

/**
 * Takes back trees or bottles of a store, newest units first, and gives their price back to the balance: the one that
 * was paid. Records, totals, balance and refunds change in one transaction, or not at all.
 * @throws DomainError request_invalid when there are fewer units than asked for
 */
export const reverseStoreImpact = (
  deps: StoreWriteDependencies,
  write: StoreWrite,
  reversal: {
    readonly kind: Kind;
    readonly quantity: number;
    readonly filter: ImpactFilter;
    readonly reason: string | null;
  },
): Promise<StoreAnswer> =>
  runStoreWrite(deps, write, async (transaction, { balanceCents }, now) => {
    const { accountId, mode } = write;
    const { kind, quantity, filter, reason } = reversal;
    const owner = { accountId, mode, kind };
    const taken = await takeNewest(transaction, owner, filter, quantity);
    await reverseRegistrations(
      transaction,
      taken.map(({ record, count }) => ({ refundId: newId(), registrationId: record.id, count })),
      { reason, reversedAt: now },
    );
    await subtractByMonth(transaction, owner, taken);
    for (const { record, count } of taken.filter((each) => each.record.isOrdered)) {
      await releaseRefundedTrees(transaction, record.id, count);
    }
    const amountCents = taken.reduce(
      (sum, { record, count }) => sum + count * record.unitPriceCents,
      0,
    );
    if (amountCents > 0) {
      await insertBalanceEntries(
        transaction,
        [
          {
            accountId,
            kind: "refund",
            amountCents,
            balanceCents: balanceCents + amountCents,
            quantity,
            registrationId: null,
            donationId: null,
            reference: null,
            note: reason ?? "",
          },
        ],
        now,
      );
    }
  });
