import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { StartupError } from "../runtime/errors.rules.ts";
import type { Billing } from "../modules/billing/createBilling.ts";
import { ProcessorMismatchError } from "../modules/billing/processor.ts";

const RETRY_INTERVAL_MS = 30_000;

/**
 * Creates or checks what the processor needs, such as Stripe's meters. If the processor cannot be reached, the worker
 * starts anyway and retries: nothing is sent to a processor that is not ready, and usage waits in the database.
 * @returns `failed`, which rejects with a StartupError if a later attempt finds the processor misconfigured
 * @throws StartupError if the first attempt does
 */
export const prepareProcessor = async (
  {
    billing,
    logger,
    retryIntervalMs = RETRY_INTERVAL_MS,
  }: { readonly billing: Billing; readonly logger: Logger; readonly retryIntervalMs?: number },
  signal: AbortSignal,
): Promise<{ readonly failed: Promise<never> }> => {
  const isReady = async (): Promise<boolean> => {
    try {
      await billing.prepare();
      return true;
    } catch (error) {
      if (error instanceof ProcessorMismatchError) {
        throw new StartupError(error.message, { cause: error });
      }
      logger.error({ err: error }, "the billing processor is not ready; retrying");
      return false;
    }
  };
  const retry = async (): Promise<void> => {
    do {
      await sleep(retryIntervalMs, undefined, { signal });
    } while (!(await isReady()));
    logger.info("the billing processor is ready");
  };
  const retrying = (await isReady()) ? Promise.resolve() : retry();
  const failed = new Promise<never>((_resolve, reject) => {
    retrying.catch((error: unknown) => {
      if (!signal.aborted) {
        logger.fatal({ err: error }, "the billing processor cannot be used");
        reject(error);
      }
    });
  });
  return { failed };
};
