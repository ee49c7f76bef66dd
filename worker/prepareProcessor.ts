import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { StartupError } from "../runtime/errors.rules.ts";
import type { Billing } from "../modules/billing/createBilling.ts";
import { ProcessorMismatchError } from "../modules/billing/processor.ts";

const RETRY_INTERVAL_MS = 30_000;

/** Returns null or a temporary error. */
const tryPrepare = async (billing: Billing): Promise<unknown> => {
  try {
    await billing.prepare();
    return null;
  } catch (error) {
    if (error instanceof ProcessorMismatchError) {
      throw new StartupError(error.message, { cause: error });
    }
    return error;
  }
};

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
  const firstError = await tryPrepare(billing);
  const retry = async (): Promise<void> => {
    for (let error = firstError; error !== null; error = await tryPrepare(billing)) {
      logger.error({ err: error }, "the billing processor is not ready; retrying");
      await sleep(retryIntervalMs, undefined, { signal });
    }
    if (firstError !== null) {
      logger.info("the billing processor is ready");
    }
  };
  const failed = new Promise<never>((_resolve, reject) => {
    retry().catch((error: unknown) => {
      if (!signal.aborted) {
        logger.fatal({ err: error }, "the billing processor cannot be used");
        reject(error);
      }
    });
  });
  return { failed };
};
