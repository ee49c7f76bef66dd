import type { Stripe } from "stripe";

const MINUTE = 60;
const HOUR = 3600;
/** Stripe's read limit is 25 calls a second in a sandbox. */
const CALLS_AT_ONCE = 5;

type Span = { readonly start: number; readonly end: number };
type Source = { readonly stripe: Stripe; readonly meterId: string; readonly customerId: string };

const readSummaries = (
  { stripe, meterId, customerId }: Source,
  { start, end }: Span,
  window?: "hour",
): Promise<Stripe.Billing.MeterEventSummary[]> =>
  stripe.billing.meters
    .listEventSummaries(meterId, {
      customer: customerId,
      start_time: start,
      end_time: end,
      limit: 100,
      ...(window ? { value_grouping_window: window } : {}),
    })
    .autoPagingToArray({ limit: 10_000 });

const steps = ({ start, end }: Span, length: number): Span[] =>
  Array.from({ length: Math.max(0, Math.ceil((end - start) / length)) }, (_, index) => ({
    start: start + index * length,
    end: Math.min(start + (index + 1) * length, end),
  }));

/** The parts of the span that may hold usage: the hours that Stripe lists, and the ends that are no whole hours. */
const partsWithUsage = async (source: Source, span: Span): Promise<Span[]> => {
  const whole = {
    start: Math.ceil(span.start / HOUR) * HOUR,
    end: Math.floor(span.end / HOUR) * HOUR,
  };
  if (whole.start >= whole.end) {
    return [span];
  }
  const hours = await readSummaries(source, whole, "hour");
  return [
    { start: span.start, end: whole.start },
    // A listed hour of 0 stays in: its minutes may hold usage and its refund.
    ...hours.map(({ start_time: start }) => ({ start, end: start + HOUR })),
    { start: whole.end, end: span.end },
  ];
};

/**
 * Usage by minute. Stripe groups summaries by hour or day only and gives one sum for any other span, so this asks for
 * the hours first and then for each minute of those that it lists: 60 calls per hour with usage, one call for a minute.
 */
export const readUsageByMinute = async (
  source: Source,
  span: Span,
): Promise<ReadonlyMap<number, number>> => {
  if (span.start % MINUTE !== 0 || span.end % MINUTE !== 0) {
    throw new Error(`Usage is summed by whole minutes: ${span.start} to ${span.end} is not.`);
  }
  const parts = await partsWithUsage(source, span);
  const minutes = parts.flatMap((part) => steps(part, MINUTE));
  const usage = new Map<number, number>();
  for (let next = 0; next < minutes.length; next += CALLS_AT_ONCE) {
    const batch = minutes.slice(next, next + CALLS_AT_ONCE);
    const sums = await Promise.all(batch.map((minute) => readSummaries(source, minute)));
    for (const [index, { start }] of batch.entries()) {
      const summaries = sums[index] ?? [];
      if (summaries.length > 0) {
        usage.set(
          start,
          summaries.reduce((sum, { aggregated_value: value }) => sum + value, 0),
        );
      }
    }
  }
  return usage;
};
