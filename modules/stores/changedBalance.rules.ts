import { invalidRequest } from "../../runtime/errors.rules.ts";
import { formatCents } from "../records/money.rules.ts";

/** Returns whether a store can have a balance. */
export const isPossibleBalance = (cents: number): boolean =>
  cents >= 0 && Number.isSafeInteger(cents);

/**
 * Returns the balance in cents after an amount is added, which may be negative.
 * @throws DomainError request_invalid if no store can have that balance
 */
export const changedBalance = (balanceCents: number, amountCents: number): number => {
  const after = balanceCents + amountCents;
  if (isPossibleBalance(after)) {
    return after;
  }
  const limit =
    after < 0 ? `become ${formatCents(after)}` : `exceed ${formatCents(Number.MAX_SAFE_INTEGER)}`;
  throw invalidRequest(`the balance is ${formatCents(balanceCents)} and cannot ${limit}`);
};
