import { counted } from "../../runtime/counted.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";

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

type Units = { readonly id: string; readonly count: number };

/**
 * Returns how many units of each record are refunded.
 * @param records with the units that they have left, newest first; the first `MAXIMUM_RECORDS` that match
 * @throws DomainError request_invalid if they have fewer units
 */
export const selectUnits = (records: readonly Units[], quantity: number): readonly Units[] => {
  const selected: Units[] = [];
  let missing = quantity;
  for (const { id, count: left } of records) {
    const count = Math.min(left, missing);
    missing -= count;
    if (count > 0) {
      selected.push({ id, count });
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
