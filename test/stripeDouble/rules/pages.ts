import { invalid, missing } from "../errorResponse.ts";

type PageParameters = { limit?: number; starting_after?: string; ending_before?: string };

/** Returns one page of a list that is already in Stripe's order, newest first. */
export const pageOf = <T extends { readonly id: string }>(
  url: string,
  all: readonly T[],
  { limit = 10, starting_after: after, ending_before: before }: PageParameters,
): { object: "list"; url: string; has_more: boolean; data: T[] } => {
  if (after !== undefined && before !== undefined) {
    throw invalid("You cannot give both ending_before and starting_after.");
  }
  const cursor = after ?? before;
  const at = cursor === undefined ? -1 : all.findIndex(({ id }) => id === cursor);
  if (cursor !== undefined && at === -1) {
    throw missing("object", cursor, 400);
  }
  const from = before === undefined ? at + 1 : Math.max(0, at - limit);
  const to = before === undefined ? from + limit : at;
  return {
    object: "list",
    url,
    has_more: before === undefined ? to < all.length : from > 0,
    data: all.slice(from, to),
  };
};
