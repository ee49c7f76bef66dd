import type { State, StoredItem, StoredSubscription } from "./state.ts";

/** Half-open, in unix seconds. */
export type Span = { readonly start: number; readonly end: number };

const DAYS: Record<string, number> = { day: 1, week: 7 };
const MONTHS: Record<string, number> = { month: 1, year: 12 };

/** Returns the start of the `index`th interval from the anchor; in a month without that day, its last day. */
const boundary = (anchor: number, { price }: StoredItem, index: number): number => {
  const { interval, interval_count: count } = price.recurring;
  const days = DAYS[interval];
  if (days !== undefined) {
    return anchor + index * count * days * 86_400;
  }
  const months = MONTHS[interval];
  if (months === undefined) {
    throw new Error(`The double does not support the interval ${interval}.`);
  }
  const date = new Date(anchor * 1000);
  const day = date.getUTCDate();
  date.setUTCDate(1);
  date.setUTCMonth(date.getUTCMonth() + index * count * months);
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  date.setUTCDate(Math.min(day, lastDay));
  return date.getTime() / 1000;
};

/**
 * Returns the item's period that contains the second. As at Stripe, the first period starts when the item was added, and
 * a trial is one period.
 */
export const periodAt = (
  { terms }: StoredSubscription,
  item: StoredItem,
  second: number,
): Span & { readonly isTrial: boolean } => {
  const at = Math.max(
    0,
    terms.findLastIndex(({ start }) => start <= second),
  );
  const term = terms[at];
  if (!term) {
    throw new Error("A subscription without terms has no periods.");
  }
  const next = terms[at + 1]?.start ?? Number.POSITIVE_INFINITY;
  if (term.isTrial) {
    return { start: Math.max(term.start, item.created), end: next, isTrial: true };
  }
  let index = 0;
  while (boundary(term.anchor, item, index) > second) {
    index -= 1;
  }
  while (boundary(term.anchor, item, index + 1) <= second) {
    index += 1;
  }
  return {
    start: Math.max(boundary(term.anchor, item, index), item.created, term.start),
    end: Math.min(boundary(term.anchor, item, index + 1), next),
    isTrial: false,
  };
};

export const itemsOf = ({ items }: State, subscriptionId: string): StoredItem[] =>
  [...items.values()].filter((item) => item.subscriptionId === subscriptionId);
