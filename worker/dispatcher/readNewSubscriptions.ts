import type { DatabasePool } from "slonik";
import type { Logger } from "pino";
import type { Clock } from "../../domain/clock.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import { ProcessorUnavailableError } from "../../providers/billing/processor.ts";
import { sweepSubscriptions } from "../../services/billing/processorEvents/sweepSubscriptions.ts";

const NEVER = new Date(0);

/**
 * Reads the subscriptions that have never been read, such as those that were set before the first worker recorded Stripe
 * as the processor. Failures are observed; the nightly sweep reads what is left.
 */
export const readNewSubscriptions = async (
  {
    logger,
    observeUnread,
    ...deps
  }: {
    readonly db: DatabasePool;
    readonly clock: Clock;
    readonly billing: Billing;
    readonly logger: Logger;
    readonly observeUnread: (accountId: string, error: unknown) => void;
  },
  signal: AbortSignal,
): Promise<void> => {
  try {
    await sweepSubscriptions(deps, NEVER, { signal, onFailure: observeUnread });
  } catch (error) {
    // Of an outage, the failures are observed.
    if (!signal.aborted && !(error instanceof ProcessorUnavailableError)) {
      logger.error({ err: error }, "new subscriptions could not be read");
    }
  }
};
