import { z } from "zod";
import { integerUpTo } from "../http/listPages.ts";

const DEFAULT_LIMIT = 20;
const MAXIMUM_LIMIT = 100;

export const limitParameter = integerUpTo(MAXIMUM_LIMIT, { default: DEFAULT_LIMIT })
  .default(DEFAULT_LIMIT)
  .meta({
    description: `Page size; ${DEFAULT_LIMIT} by default. More than ${MAXIMUM_LIMIT} is read as ${MAXIMUM_LIMIT}.`,
  });

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
