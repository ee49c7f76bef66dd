import { Stripe } from "stripe";
import type { Span } from "../usage.rules.ts";
import { UsageUnreadableError } from "../processor.ts";

const MINUTE_SECONDS = 60;

/**
 * Returns Stripe's sum of a customer's usage in a half-open span of whole minutes. It lags behind what was sent.
 * @throws UsageUnreadableError if Stripe refuses this request
 */
export const sumUsage = async (
  {
    stripe,
    meterId,
    customerId,
  }: { readonly stripe: Stripe; readonly meterId: string; readonly customerId: string },
  { start, end }: Span,
): Promise<number> => {
  if (start % MINUTE_SECONDS !== 0 || end % MINUTE_SECONDS !== 0) {
    throw new Error(`The span ${start} to ${end} does not consist of whole minutes.`);
  }
  // Without a grouping window Stripe returns one sum. More pages are not expected, but would be added.
  const summaries = await stripe.billing.meters
    .listEventSummaries(meterId, {
      customer: customerId,
      start_time: start,
      end_time: end,
      limit: 100,
    })
    .autoPagingToArray({ limit: 10_000 })
    .catch((error: unknown) => {
      throw error instanceof Stripe.errors.StripeInvalidRequestError
        ? new UsageUnreadableError(error.message, { cause: error })
        : error;
    });
  return summaries.reduce((sum, { aggregated_value: value }) => sum + value, 0);
};
