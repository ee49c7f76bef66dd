import { StartupError } from "../runtime/errors.rules.ts";
import { ProcessorMismatchError } from "../modules/billing/processor.ts";
import type { WorkerContext } from "./context.ts";

/**
 * Creates or checks what the processor needs, such as Stripe's meters. If Stripe cannot be reached, the worker starts anyway:
 * each call that sends usage checks the account and the meters first, and the usage waits in the database.
 * @throws StartupError if the processor is misconfigured
 */
export const prepareProcessor = async ({
  billing,
  logger,
}: Pick<WorkerContext, "billing" | "logger">): Promise<void> => {
  try {
    await billing.prepare();
  } catch (error) {
    if (error instanceof ProcessorMismatchError) {
      throw new StartupError(error.message, { cause: error });
    }
    // The ledger needs only the database, and nothing checks it again.
    if (billing.stripe === null) {
      throw error;
    }
    logger.error({ err: error }, "Stripe is not ready; its usage waits in the database");
  }
};
