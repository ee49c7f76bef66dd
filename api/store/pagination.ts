import { z } from "zod";

const DEFAULT_LIMIT = 20;
const MAXIMUM_LIMIT = 100;
const LIMIT_MUST_BE = `must be an integer from 1 to ${MAXIMUM_LIMIT}`;

export const limitParameter = z
  .string({ error: LIMIT_MUST_BE })
  .regex(/^(?:[1-9]\d?|100)?$/u, LIMIT_MUST_BE)
  .transform((given) => (given === "" ? DEFAULT_LIMIT : Number(given)))
  .default(DEFAULT_LIMIT)
  .meta({ description: `Page size; ${DEFAULT_LIMIT} by default, at most ${MAXIMUM_LIMIT}.` });

/** The fields of a response that point to the next page. */
export const pageFields = {
  has_more: z.boolean(),
  next_cursor: z.string().meta({ description: "Empty on the last page." }),
};

/**
 * Cuts a page out of rows that were queried with a limit of one more than the page holds.
 * @returns the rows of the page, and its last row if more follow
 */
export const toPage = <Row>(
  rows: readonly Row[],
  limit: number,
): { readonly page: readonly Row[]; readonly last: Row | undefined } => {
  const page = rows.slice(0, limit);
  return { page, last: rows.length > limit ? page.at(-1) : undefined };
};
