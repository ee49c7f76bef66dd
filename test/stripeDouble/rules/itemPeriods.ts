import type { State, StoredItem, StoredSubscription } from "./state.ts";

/** Half-open, in unix seconds. */
type Span = { readonly start: number; readonly end: number };

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

/** Returns the item's period that contains the second. As at Stripe, the first period starts when the item was added. */
export const periodAt = (
  { anchor }: StoredSubscription,
  item: StoredItem,
  second: number,
): Span => {
  let index = 0;
  while (boundary(anchor, item, index) > second) {
    index -= 1;
  }
  while (boundary(anchor, item, index + 1) <= second) {
    index += 1;
  }
  return {
    start: Math.max(boundary(anchor, item, index), item.created),
    end: boundary(anchor, item, index + 1),
  };
};

export type InvoiceLine = {
  readonly item: string;
  readonly price: string;
  readonly meter: string;
  readonly start: number;
  readonly end: number;
  /** Billed units: never below 0, and fixed once `finalized`. */
  readonly quantity: number;
  readonly finalized: boolean;
};

/** Returns the metered lines of the subscription's invoices so far: the usage of each period that arrived within its grace period. */
export const invoiceLines = (state: State, subscription: StoredSubscription): InvoiceLine[] => {
  const now = state.clock.now();
  const lines: InvoiceLine[] = [];
  for (const item of state.items.values()) {
    const { meter } = item.price.recurring;
    if (item.subscriptionId !== subscription.id || meter === null) {
      continue;
    }
    let period = periodAt(subscription, item, item.created);
    while (period.end <= now) {
      const { start, end } = period;
      const finalizedAt = end + state.settings.gracePeriodSeconds;
      const used = state.events
        .filter(
          (event) =>
            event.meterId === meter &&
            event.customerId === subscription.customerId &&
            event.rejectedWith === null &&
            event.second >= start &&
            event.second < end &&
            event.receivedAt <= finalizedAt,
        )
        .reduce((sum, { value }) => sum + value, 0);
      lines.push({
        item: item.id,
        price: item.price.id,
        meter,
        start,
        end,
        quantity: Math.max(0, used),
        finalized: now >= finalizedAt,
      });
      period = periodAt(subscription, item, end);
    }
  }
  return lines;
};
