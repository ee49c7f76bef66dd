import { z } from "zod";
import { emptyAsNull, shortText } from "../records/fields.rules.ts";

const FRACTIONAL_COUNT_MUST_BE = "must be a number of at least 0";

/** Units including a fraction of one; never billed. */
export const fractionalCount = () =>
  z.number({ error: FRACTIONAL_COUNT_MUST_BE }).min(0, FRACTIONAL_COUNT_MUST_BE);

/** Returns why an organization must not give a fractional count, or null. */
export const findFractionalCountProblem = (
  given: number | undefined,
  organization: { readonly fractionalCounting: boolean },
): string | null =>
  given === undefined || organization.fractionalCounting
    ? null
    : "fractional_count: fractional counting is not enabled for this organization";

/** Returns what to store: an organization with fractional counting counts whole units unless it says otherwise. */
export const fractionalCountOf = (
  given: number | undefined,
  count: number,
  organization: { readonly fractionalCounting: boolean },
): number => given ?? (organization.fractionalCounting ? count : 0);

/** A tag to filter by; an empty one is no tag. */
export const attribution = shortText;

/** An empty key is read as null, which means none. */
export const idempotencyKey = () => shortText().transform(emptyAsNull);
