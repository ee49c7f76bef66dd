import { z } from "zod";
import { emptyAsNull, text } from "../fields.ts";

/*
 * What a registration may hold, whichever way it comes in.
 */

const FRACTIONAL_COUNT_MUST_BE = "must be a number of at least 0";

/** Units with their fraction; never billed. */
export const fractionalCount = () =>
  z.number({ error: FRACTIONAL_COUNT_MUST_BE }).min(0, FRACTIONAL_COUNT_MUST_BE);

/** What keeps a registration's fractional count from being taken; null where nothing does. */
export const findFractionalCountFault = (
  given: number | undefined,
  organization: { readonly fractionalCounting: boolean },
): string | null =>
  given === undefined || organization.fractionalCounting
    ? null
    : "fractional_count: fractional counting is not enabled for this organization";

/** One tag; empty means none. */
export const attribution = () => text(500);

/** Empty means none and is read as null. */
export const idempotencyKey = () =>
  text(255)
    // Bytes that are not UTF-8 were read as this character: two different keys must not become one.
    .refine((key) => !key.includes("\uFFFD"), "must be well-formed UTF-8")
    .meta({ examples: ["order-1001"] })
    .transform(emptyAsNull);
