import type { Logger } from "pino";
import type { Owner } from "../modules/records/owner.rules.ts";
import type { BillingObservers } from "../activities/createBillingActivities.ts";
import { isContentError } from "../db/databaseErrors.ts";
import { needsAttention } from "../modules/billing/sending/decideNextStep.rules.ts";
import type { DeliveryContext, createDeliveryRuns } from "../modules/events/createDeliveryRuns.ts";
import { createOutageLog, createRepeatedLog } from "./repeatedCalls.ts";
import type { WorkerMetrics } from "./createWorkerMetrics.ts";

type Sinks = { readonly metrics: WorkerMetrics; readonly logger: Logger };

type AllBillingObservers = BillingObservers & {
  /** Called when the usage of a stream could not be processed, which is tried again. */
  readonly observeFailure: (stream: Owner, error: unknown) => void;
};

type DeliveryObservers = Pick<DeliveryContext, "observeAttempt" | "observeDisabled"> &
  Parameters<typeof createDeliveryRuns>[1];

/** Returns what counts and logs the results of billing. */
export const createBillingObservers = ({ metrics, logger }: Sinks): AllBillingObservers => {
  const logUsage = createRepeatedLog(logger, "usage was rejected; see `impact usage`");
  const logFailure = createRepeatedLog(logger, "the usage of a stream could not be processed");
  return {
    observeSend: (stream, result, meterEventId) => {
      metrics.observeSend(stream, result);
      if (needsAttention(result)) {
        const { accountId, mode } = stream;
        const cause = result.kind === "delayed" ? result.cause : result.failure;
        const firstEventId = meterEventId === null ? null : String(meterEventId);
        logUsage(`${accountId} ${cause}`, {
          accountId,
          mode,
          cause,
          reason: result.reason,
          firstEventId,
        });
      }
    },
    observeFailure: (stream, error) => {
      logFailure(stream.accountId, { ...stream, err: error });
    },
    observeFailedEvent: (event) => {
      logger.error({ processorEvent: event }, "an event of the processor cannot be processed");
    },
    observeUnreadInvoices: (customerId, error) => {
      logger.warn({ customerId, err: error }, "a customer's invoices could not be read at Stripe");
    },
    observeDrift: (streams) => {
      for (const stream of streams) {
        logger.error(
          { stream },
          "the processor's usage differs from the delivered usage, or could not be read; see `impact usage`",
        );
      }
    },
  };
};

/** Returns what counts and logs the results of deliveries to webhook endpoints. */
export const createDeliveryObservers = ({ metrics, logger }: Sinks): DeliveryObservers => {
  const logUnrecorded = createOutageLog(
    logger,
    "deliveries cannot be recorded; they are sent again when the database responds",
  );
  return {
    observeAttempt: ({ type }, result) => metrics.observeWebhookAttempt(type, result),
    observeDisabled: ({ id, accountId, disabledReason: reason }) => {
      logger.error(
        { endpointId: id, accountId, reason },
        "a webhook endpoint was disabled; its owner receives no events until it is enabled",
      );
    },
    onFailure: ({ endpointId, id }, error) => {
      if (isContentError(error)) {
        logger.error({ endpointId, eventId: id, err: error }, "a delivery could not be recorded");
      } else {
        logUnrecorded(error);
      }
    },
  };
};
