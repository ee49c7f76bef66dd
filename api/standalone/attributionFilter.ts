import type { z } from "zod";
import { booleanParameter } from "../http/parseRequest.ts";

/** The parameter of lists that finds records without an attribution: an empty attribution filter is no filter. */
export const withoutAttribution = () =>
  booleanParameter()
    .optional()
    .meta({ description: "`true` lists only records without an attribution." });

type Without = z.output<ReturnType<typeof withoutAttribution>>;

/** Returns whether the two parameters do not exclude each other. */
export const isOneAttribution = (attribution: string | undefined, without: Without): boolean =>
  attribution === undefined || without !== "true";

/** Returns the attribution to list, which is empty for records without one; undefined for all. */
export const attributionOf = (
  attribution: string | undefined,
  without: Without,
): string | undefined => (without === "true" ? "" : attribution);
