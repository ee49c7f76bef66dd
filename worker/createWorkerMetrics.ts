import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { Counter, Registry } from "prom-client";
import type { BillingObservers } from "../activities/createBillingActivities.ts";
import { isContentError } from "../db/databaseErrors.ts";
import type { ProcessorEventObservers } from "../modules/billing/processorEvents/processProcessorEvents.ts";
import type { SendObservers } from "../modules/billing/sending/createUsageSender.ts";
import { needsAttention } from "../modules/billing/sending/decideNextStep.rules.ts";
import type { DeliveryContext } from "../modules/events/createDeliveryRuns.ts";
import type { LastAttempt } from "../modules/events/decideDelivery.rules.ts";
import type { Context } from "../runtime/context.ts";
import { addDatabaseMetrics } from "./addDatabaseMetrics.ts";
import { createOutageLog, createRepeatedLog } from "./repeatedCalls.ts";

const createBillingObservers = (
  registry: Registry,
  logger: Logger,
): SendObservers & ProcessorEventObservers & BillingObservers => {
  const attempts = new Counter({
    name: "impact_meter_event_attempts_total",
    help: "Attempts to send a meter event, by mode, meter and outcome.",
    labelNames: ["mode", "meter", "outcome"],
    registers: [registry],
  });
  const logUsage = createRepeatedLog(logger, "error", "usage was rejected; see `impact usage`");
  const logFailure = createRepeatedLog(
    logger,
    "error",
    "the usage of a stream could not be processed",
  );
  const logDelayed = createOutageLog(
    logger,
    "an event of the processor could not be processed; it will be tried again",
  );
  return {
    onResult: ({ accountId, mode, kind }, result, meterEventId) => {
      const outcome = result.kind === "settled" ? result.state : result.cause;
      attempts.inc({ mode, meter: kind, outcome });
      if (needsAttention(result)) {
        const cause = result.kind === "delayed" ? result.cause : result.failure;
        const firstEventId = meterEventId === null ? null : String(meterEventId);
        const { reason } = result;
        logUsage({ accountId, mode, cause, reason, firstEventId }, `${accountId} ${cause}`);
      }
    },
    onFailure: ({ accountId, mode, kind }, error) => {
      logFailure({ accountId, mode, kind, err: error }, accountId);
    },
    observeFailedEvent: (event) => {
      logger.error({ processorEvent: event }, "an event of the processor cannot be processed");
    },
    observeDelayedEvent: logDelayed,
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

const outcomeOf = ({ error, status }: LastAttempt): string => {
  if (error === null) {
    return "delivered";
  }
  return status === null ? "unreachable" : "rejected";
};

const createDeliveryObservers = (
  registry: Registry,
  logger: Logger,
): Pick<DeliveryContext, "observeAttempt" | "observeDisabled" | "onFailure"> => {
  const attempts = new Counter({
    name: "impact_webhook_attempts_total",
    help: "Requests to webhook endpoints, by the event's type and outcome: delivered, rejected (an error status) or unreachable.",
    labelNames: ["type", "outcome"],
    registers: [registry],
  });
  const logUnrecorded = createOutageLog(
    logger,
    "deliveries cannot be recorded; they are sent again when the database responds",
  );
  return {
    observeAttempt: ({ type }, result) => attempts.inc({ type, outcome: outcomeOf(result) }),
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

/** A scrape waits this long for the database. Its queries take milliseconds. */
const REFRESH_WAIT_MS = 1000;

export const createWorkerMetrics = (context: Context & { readonly logger: Logger }) => {
  const { logger } = context;
  const registry = new Registry();
  const refresh = addDatabaseMetrics(registry, context);
  const logOutage = createOutageLog(logger, "metrics of the database cannot be read");
  return {
    registry,
    billing: createBillingObservers(registry, logger),
    deliveries: createDeliveryObservers(registry, logger),
    /** Returns all metrics, with the database's last values if it does not respond. */
    read: async (): Promise<string> => {
      const waited = delay(REFRESH_WAIT_MS, undefined, { ref: false });
      await Promise.race([refresh().catch(logOutage), waited]);
      return registry.metrics();
    },
  };
};
