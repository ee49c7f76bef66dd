import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import type { Clock } from "../clock.ts";
import { pause, withTimeout } from "../waiting.ts";
import { withTemporalDeadline } from "../temporalClient.ts";

/** Whether the process can serve, and the results of the latest checks. */
export type Readiness = {
  readonly status: "ok" | "unavailable" | "stopping";
  readonly database: "ok" | "unreachable";
  /** Unknown while the database is unreachable. */
  readonly clock: "ok" | "off" | "unknown";
  readonly temporal: "ok" | "unreachable";
};

const DATABASE_INTERVAL_MS = 1000;
/** Only clients of donations notice that it is away. */
const TEMPORAL_INTERVAL_MS = 5000;
const TIMEOUT_MS = 2000;

const UNREACHABLE = { database: "unreachable", clock: "unknown" } as const;

/** Registrations are billed at the API's second; billing periods end by the database's and the processor's clocks. */
const TOLERATED_SKEW_MS = 2000;

/**
 * Checks again and again whether the database and Temporal respond within two seconds, and how far this machine's clock is
 * off. So readiness is known at any time and costs a request nothing. Resolves after the first checks.
 * @param readDatabaseTime uses a connection of its own, so that a busy pool does not look like an unreachable database
 * @param needsTemporal whether the process can do nothing without Temporal
 */
export const watchHealth = async ({
  readDatabaseTime,
  temporal,
  clock,
  logger,
  needsTemporal,
}: {
  readonly readDatabaseTime: () => Promise<Date>;
  readonly temporal: Client;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly needsTemporal: boolean;
}) => {
  const ended = new AbortController();
  let database: Pick<Readiness, "database" | "clock"> = UNREACHABLE;
  let temporalHealth: Readiness["temporal"] = "unreachable";
  let wasRight = true;
  let isStopping = false;

  const updateDatabase = async (): Promise<void> => {
    const sentAtMs = clock.now().getTime();
    const startedAtMs = performance.now();
    try {
      const now = await withTimeout(TIMEOUT_MS, readDatabaseTime());
      // The response may have taken any part of the time.
      const halfMs = (performance.now() - startedAtMs) / 2;
      const skewMs = Math.round(now.getTime() - (sentAtMs + halfMs));
      const isRight = Math.abs(skewMs) <= TOLERATED_SKEW_MS + halfMs;
      database = { database: "ok", clock: isRight ? "ok" : "off" };
      if (isRight === wasRight) {
        return;
      }
      wasRight = isRight;
      if (isRight) {
        logger.info("this machine's clock is right again");
      } else {
        logger.error(
          { skewMs },
          "this machine's clock differs from the database's by more than 2 s; not ready until NTP corrects it",
        );
      }
    } catch {
      // The result says so; requests that need the database report the error.
      database = UNREACHABLE;
    }
  };
  const updateTemporal = async (): Promise<void> => {
    temporalHealth = await withTemporalDeadline(temporal, TIMEOUT_MS, () =>
      temporal.workflowService.describeNamespace({ namespace: temporal.options.namespace }),
    ).then(
      () => "ok",
      () => "unreachable",
    );
  };
  const repeat = async (update: () => Promise<void>, intervalMs: number): Promise<void> => {
    while (await pause(intervalMs, ended.signal)) {
      await update();
    }
  };

  await Promise.all([updateDatabase(), updateTemporal()]);
  void repeat(updateDatabase, DATABASE_INTERVAL_MS);
  void repeat(updateTemporal, TEMPORAL_INTERVAL_MS);

  const statusOf = (): Readiness["status"] => {
    if (isStopping) {
      return "stopping";
    }
    const canServe = database.clock === "ok" && (!needsTemporal || temporalHealth === "ok");
    return canServe ? "ok" : "unavailable";
  };
  return {
    read: (): Readiness => ({ status: statusOf(), ...database, temporal: temporalHealth }),
    /** From now on the process reports that it is stopping. The checks go on. */
    startStopping: (): void => {
      isStopping = true;
    },
    end: (): void => ended.abort(),
  };
};
