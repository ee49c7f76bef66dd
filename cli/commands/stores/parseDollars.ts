import { InvalidArgumentError } from "commander";
import { z } from "zod";
import { dollarsToCents, MAXIMUM_CENTS } from "../../../domain/money.ts";
import { parserOf } from "../../arguments.ts";

const DOLLARS_MUST_BE = "US dollars with at most two decimals, below a billion, such as 25 or 0.50";

const cents = z
  .string()
  .regex(/^-?\d{1,9}(?:\.\d{1,2})?$/u)
  .transform((given) => dollarsToCents(Number(given)) ?? Number.NaN)
  .pipe(z.int().min(-MAXIMUM_CENTS).max(MAXIMUM_CENTS));

/** Parses a dollar amount of at least 0 and returns cents. */
export const parseDollars = parserOf(cents.pipe(z.int().min(0)), DOLLARS_MUST_BE);

const parsePositiveDollars = parserOf(cents.pipe(z.int().min(1)), `${DOLLARS_MUST_BE}; above 0`);

/** Parses the amount of a top-up and returns cents. */
export const parseTopUpAmount = (given: string): number => {
  if (given.startsWith("-")) {
    throw new InvalidArgumentError(
      "A top-up must be positive. To subtract from a balance, use impact store adjust.",
    );
  }
  return parsePositiveDollars(given);
};

/** Parses a positive or negative dollar amount and returns cents. */
export const parseAdjustment = parserOf(
  cents.refine((amount) => amount !== 0),
  `${DOLLARS_MUST_BE}; negative to subtract, but not 0`,
);
