import { counted } from "../../runtime/counted.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";
import { isRefund } from "./storeWrites.rules.ts";
import type { AnyStoreWrite, StoreRefundWrite } from "./storeWrites.rules.ts";

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

/** A refund of more can take long. */
const MAXIMUM_QUICK = 100;

/** Returns whether a refund may share a transaction with other stores. One of donations waits for their locks. */
const isQuick = ({ refunded, quantity }: StoreRefundWrite): boolean =>
  refunded !== "donation" && quantity <= MAXIMUM_QUICK;

/**
 * Returns the writes that one transaction does: of each store those before its first refund, and the refund, unless it
 * can take long and the store is not alone.
 */
export const selectReady = (
  writes: readonly AnyStoreWrite[],
  { isAlone }: { readonly isAlone: boolean },
): readonly AnyStoreWrite[] => {
  const done = new Set<string>();
  return writes.filter((write) => {
    if (done.has(write.accountId)) {
      return false;
    }
    if (!isRefund(write)) {
      return true;
    }
    done.add(write.accountId);
    return isAlone || isQuick(write);
  });
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
