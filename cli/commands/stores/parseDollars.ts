import { z } from "zod";
import { dollarsToCents, MAXIMUM_CENTS } from "../../../domain/money.ts";
import { parserOf } from "../../arguments.ts";

const DOLLARS_MUST_BE = "US dollars with at most two decimals, below a billion, such as 25 or 0.50";

const cents = z
  .string()
  .regex(/^-?\d{1,9}(?:\.\d{1,2})?$/u)
  .transform((given) => dollarsToCents(Number(given)) ?? Number.NaN)
  .pipe(z.int().min(-MAXIMUM_CENTS).max(MAXIMUM_CENTS));

/** Dollars as people write them, in cents. */
export const parseDollars = parserOf(cents.pipe(z.int().min(0)), DOLLARS_MUST_BE);

/** The same below 0 too, but not 0. */
export const parseSignedDollars = parserOf(
  cents.refine((amount) => amount !== 0),
  `${DOLLARS_MUST_BE}; below 0 to take a mistake back`,
);
