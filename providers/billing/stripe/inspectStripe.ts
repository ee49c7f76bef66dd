import type { StripeClientOptions } from "./createStripeClient.ts";
import { createStripeClient } from "./createStripeClient.ts";
import { inspectMeters } from "./meters.ts";

/**
 * What keeps usage from being sent to Stripe, in sentences; none when all is well. It changes nothing there.
 * @throws when Stripe cannot be reached or refuses the key
 */
export const inspectStripe = (options: StripeClientOptions): Promise<readonly string[]> =>
  inspectMeters(createStripeClient(options).stripe);
