import type { Mode } from "../../../domain/accounts/accounts.ts";
import type { AccountLimits } from "../../../domain/accounts/limits.ts";
import { requireAffordableCount, requireTestSpace } from "../../../domain/accounts/limits.ts";
import { outcomeOf } from "../../../domain/batches.ts";
import type { DomainError } from "../../../domain/errors.ts";

/** What writes record that was not recorded before. */
export type NewRecords = { readonly newRecords: number; readonly newUnits: number };

/** The limits of an account, and what it uses of them, with what its writes in flight may record. */
export type LimitedUse = {
  readonly mode: Mode;
  readonly limits: AccountLimits;
  readonly used: NewRecords;
};

/** An item of a batch, as far as limits concern it. */
export type LimitedItem = {
  /** Of the item in the batch, which may have others that are rejected already. */
  readonly index: number;
  /** Units to register; null if the item has none, such as a refund. */
  readonly count: number | null;
  readonly idempotencyKey: string | null;
  /** Why the item is rejected unless it repeats an earlier one, whatever the limits are; null if it is not. */
  readonly refusal?: DomainError | null;
};

/** Returns why the limits do not allow another record, or null. */
export const findExcess = (
  { mode, limits, used }: LimitedUse,
  { field, count }: { readonly field: string; readonly count: number | null },
): DomainError | null =>
  outcomeOf(() => {
    if (count !== null) {
      requireAffordableCount(limits, { field, count, countToday: used.newUnits });
    }
    if (mode === "test") {
      requireTestSpace(limits.testRecords, used.newRecords);
    }
    return null;
  });

/**
 * Compares the items of a batch with the limits, in their order. Repeated ones record nothing, so no limit concerns them.
 * @param knownKeys the idempotency keys of earlier writes
 * @returns the indices of the items that are refused or exceed a limit, and what the others record
 */
export const checkItems = (
  use: LimitedUse,
  items: readonly LimitedItem[],
  knownKeys: ReadonlySet<string>,
): {
  readonly rejections: ReadonlyMap<number, DomainError>;
  readonly accepted: NewRecords;
} => {
  const rejections = new Map<number, DomainError>();
  const keys = new Set(knownKeys);
  let newUnits = 0;
  let newRecords = 0;
  for (const { index, count, idempotencyKey, refusal = null } of items) {
    if (idempotencyKey !== null && keys.has(idempotencyKey)) {
      continue;
    }
    const used = {
      newUnits: use.used.newUnits + newUnits,
      newRecords: use.used.newRecords + newRecords,
    };
    const excess = refusal ?? findExcess({ ...use, used }, { field: "count", count });
    if (excess !== null) {
      rejections.set(index, excess);
      continue;
    }
    newUnits += count ?? 0;
    newRecords += 1;
    if (idempotencyKey !== null) {
      keys.add(idempotencyKey);
    }
  }
  return { rejections, accepted: { newUnits, newRecords } };
};
