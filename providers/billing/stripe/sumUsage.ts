import type { Stripe } from "stripe";

const MINUTE_SECONDS = 60;

/**
 * The usage that Stripe has summed up for a customer in a half-open span of whole minutes. Its sums lag behind what it
 * was sent.
 */
export const sumUsage = async (
  {
    stripe,
    meterId,
    customerId,
  }: { readonly stripe: Stripe; readonly meterId: string; readonly customerId: string },
  { start, end }: { readonly start: number; readonly end: number },
): Promise<number> => {
  if (start % MINUTE_SECONDS !== 0 || end % MINUTE_SECONDS !== 0) {
    throw new Error(`Usage is summed by whole minutes: ${start} to ${end} is not.`);
  }
  // Without a grouping window Stripe answers one sum; more than one page is not to be expected, but would count too.
  const summaries = await stripe.billing.meters
    .listEventSummaries(meterId, {
      customer: customerId,
      start_time: start,
      end_time: end,
      limit: 100,
    })
    .autoPagingToArray({ limit: 10_000 });
  return summaries.reduce((sum, { aggregated_value: value }) => sum + value, 0);
};
