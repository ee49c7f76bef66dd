import { counted } from "../../runtime/counted.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { Kind } from "../records/owner.rules.ts";

/** What limits the size of a transaction; larger refunds need several calls. */
export const MAXIMUM_RECORDS = 10_000;
export const MAXIMUM_DONATIONS = 1000;

/** Units of a record, which were paid with this price each. A donation is one unit, whose price is not repaid. */
export type Units = {
  readonly id: string;
  readonly count: number;
  readonly unitPriceCents: number;
};

/**
 * Returns how many units of each record are refunded.
 * @param records with the units that they have left, newest first; the first `MAXIMUM_RECORDS` that match
 * @throws DomainError request_invalid if they have fewer units, or one call cannot refund them
 */
export const selectUnits = (
  records: readonly Units[],
  { refunded, quantity }: { readonly refunded: Kind | "donation"; readonly quantity: number },
): readonly Units[] => {
  const isDonation = refunded === "donation";
  if (isDonation && quantity > MAXIMUM_DONATIONS) {
    throw invalidRequest(
      `quantity: at most ${MAXIMUM_DONATIONS} donations can be reversed in one call`,
    );
  }
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
  const left = quantity - missing;
  if (records.length >= MAXIMUM_RECORDS) {
    throw invalidRequest(
      `quantity: one call can reverse units of at most ${MAXIMUM_RECORDS} records; reverse at most ${left} units in this call and the rest in others`,
    );
  }
  const unit = isDonation ? "donation" : "unit";
  throw invalidRequest(
    left === 0
      ? `quantity: no matching ${unit} remains to be reversed; a customer's name must match as a whole`
      : `quantity: only ${counted(left, `of the matching ${unit}s remains`, `of the matching ${unit}s remain`)} to be reversed`,
  );
};
