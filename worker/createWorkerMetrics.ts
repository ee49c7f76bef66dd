import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { Counter, Registry } from "prom-client";
import type { Owner } from "../modules/records/owner.rules.ts";
import type { SendResult } from "../modules/billing/sending/decideNextStep.rules.ts";
import type { AttemptResult } from "../modules/events/decideDelivery.rules.ts";
import type { Context } from "../runtime/context.ts";
import { collectProcessMetrics } from "../runtime/gauges.ts";
import { addDatabaseMetrics } from "./addDatabaseMetrics.ts";
import { createOutageLog } from "./repeatedCalls.ts";

export type WorkerMetrics = {
  readonly registry: Registry;
  /** Returns all metrics, with the database's last values if it does not respond. */
  readonly read: () => Promise<string>;
  readonly observeSend: (stream: Owner, result: SendResult) => void;
  readonly observeWebhookAttempt: (type: string, result: AttemptResult) => void;
};

const webhookOutcomeOf = ({ error, status }: AttemptResult): string => {
  if (error === null) {
    return "delivered";
  }
  return status === null ? "unreachable" : "rejected";
};

/** A scrape waits this long for the database. Its queries take milliseconds. */
const REFRESH_WAIT_MS = 1000;

/** Creates the Prometheus metrics of a worker process. */
export const createWorkerMetrics = ({
  db,
  clock,
  logger,
}: Context & { readonly logger: Logger }): WorkerMetrics => {
  const registry = new Registry();
  collectProcessMetrics(registry);
  const registers = [registry];
  const meterEvents = new Counter({
    name: "impact_meter_event_attempts_total",
    help: "Attempts to send a meter event, by mode, meter and outcome.",
    labelNames: ["mode", "meter", "outcome"],
    registers,
  });
  const webhookAttempts = new Counter({
    name: "impact_webhook_attempts_total",
    help: "Requests to webhook endpoints, by the event's type and outcome: delivered, rejected (an error status) or unreachable.",
    labelNames: ["type", "outcome"],
    registers,
  });
  const readDatabase = addDatabaseMetrics(registry, { db, clock });
  const logOutage = createOutageLog(logger, "metrics of the database cannot be read");
  let refreshing: Promise<void> | null = null;
  const refresh = async (): Promise<void> => {
    try {
      await readDatabase();
    } catch (error) {
      logOutage(error);
    } finally {
      refreshing = null;
    }
  };
  return {
    registry,
    read: async () => {
      // A refresh that an earlier scrape did not wait for is stuck; this scrape does not wait for it either.
      if (refreshing === null) {
        refreshing = refresh();
        await Promise.race([refreshing, delay(REFRESH_WAIT_MS, undefined, { ref: false })]);
      }
      return registry.metrics();
    },
    observeSend: ({ mode, kind }, result) =>
      meterEvents.inc({
        mode,
        meter: kind,
        outcome: result.kind === "settled" ? result.state : result.cause,
      }),
    observeWebhookAttempt: (type, result) =>
      webhookAttempts.inc({ type, outcome: webhookOutcomeOf(result) }),
  };
};
