import type { Logger } from "pino";
import { ProcessorUnavailableError } from "../../modules/billing/processor.ts";
import { sweepSubscriptions } from "../../modules/billing/processorEvents/refreshSubscriptions.ts";
import type { BillingContext } from "../../modules/billing/context.ts";

const NEVER = new Date(0);

/**
 * Reads the subscriptions that have never been read, such as those that were set before the first worker recorded Stripe
 * as the processor. Failures are observed; the nightly sweep reads what is left.
 */
export const readNewSubscriptions = async (
  {
    logger,
    observeUnread,
    ...context
  }: BillingContext & {
    readonly logger: Logger;
    readonly observeUnread: (accountId: string, error: unknown) => void;
  },
  signal: AbortSignal,
): Promise<void> => {
  try {
    await sweepSubscriptions(context, NEVER, { signal, onFailure: observeUnread });
  } catch (error) {
    // Of an outage, the failures are observed.
    if (!signal.aborted && !(error instanceof ProcessorUnavailableError)) {
      logger.error({ err: error }, "new subscriptions could not be read");
    }
  }
};
