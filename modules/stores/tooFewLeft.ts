import { counted } from "../../runtime/counted.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";

/** Returns the error for a reversal of more units or donations than remain. */
export const tooFewLeft = (left: number, unit: "unit" | "donation"): DomainError =>
  invalidRequest(
    left === 0
      ? `quantity: no matching ${unit} remains to be reversed; a customer's name must match as a whole`
      : `quantity: only ${counted(left, `of the matching ${unit}s remains`, `of the matching ${unit}s remain`)} to be reversed`,
  );
