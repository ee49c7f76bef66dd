import { counted } from "../../runtime/counted.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";
import { isRefund } from "./storeWrites.rules.ts";
import type { AnyStoreWrite } from "./storeWrites.rules.ts";

/** What limits the size of a transaction; larger refunds need several calls. */
export const MAXIMUM_RECORDS = 10_000;
export const MAXIMUM_DONATIONS = 1000;

/** Returns the error for a refund of more units or donations than remain. */
export const tooFewLeft = (left: number, unit: "unit" | "donation"): DomainError =>
  invalidRequest(
    left === 0
      ? `quantity: no matching ${unit} remains to be reversed; a customer's name must match as a whole`
      : `quantity: only ${counted(left, `of the matching ${unit}s remains`, `of the matching ${unit}s remain`)} to be reversed`,
  );

/** A refund of more can take long. One of donations waits for their locks. */
const MAXIMUM_QUICK = 100;

/** How much a store may refund in one transaction, together with others or alone: a quick refund takes 1. */
const REFUNDS_TOGETHER = 1;
const REFUNDS_ALONE = 20;

/** Returns how much of a transaction a write takes. A refund that takes long is the only one in its transaction. */
const sizeOf = (write: AnyStoreWrite): number => {
  if (!isRefund(write)) {
    return 0;
  }
  return write.refunded === "donation" || write.quantity > MAXIMUM_QUICK ? REFUNDS_ALONE : 1;
};

/** Returns the writes that are done now: of each store, those before a refund for which the transaction has no room. */
export const selectReady = <Write extends AnyStoreWrite>(
  writes: readonly Write[],
  { isAlone }: { readonly isAlone: boolean },
): readonly Write[] => {
  const room = new Map<string, number>();
  return writes.filter((write) => {
    const before = room.get(write.accountId) ?? (isAlone ? REFUNDS_ALONE : REFUNDS_TOGETHER);
    const left = before - sizeOf(write);
    room.set(write.accountId, left);
    return left >= 0;
  });
};

/**
 * Divides writes into rounds, in which each store has what it pays and then at most one refund: a refund changes what the
 * next write finds.
 */
export const divideIntoRounds = <Write extends AnyStoreWrite>(
  writes: readonly Write[],
): readonly (readonly Write[])[] => {
  const rounds: Write[][] = [];
  const refunds = new Map<string, number>();
  for (const write of writes) {
    const round = refunds.get(write.accountId) ?? 0;
    (rounds[round] ??= []).push(write);
    refunds.set(write.accountId, round + (isRefund(write) ? 1 : 0));
  }
  return rounds;
};

type Units = { readonly id: string; readonly count: number; readonly unitPriceCents: number };

/**
 * Returns how many units of each record are refunded.
 * @param records with the units that they have left, newest first; the first `MAXIMUM_RECORDS` that match
 * @throws DomainError request_invalid if they have fewer units
 */
export const selectUnits = (records: readonly Units[], quantity: number): readonly Units[] => {
  const selected: Units[] = [];
  let missing = quantity;
  for (const record of records) {
    const count = Math.min(record.count, missing);
    missing -= count;
    if (count > 0) {
      selected.push({ ...record, count });
    }
  }
  if (missing === 0) {
    return selected;
  }
  throw records.length < MAXIMUM_RECORDS
    ? tooFewLeft(quantity - missing, "unit")
    : invalidRequest(
        `quantity: one call can reverse units of at most ${MAXIMUM_RECORDS} records; reverse at most ${quantity - missing} units in this call and the rest in others`,
      );
};
