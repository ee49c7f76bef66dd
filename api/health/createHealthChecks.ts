import type { Client } from "@temporalio/client";
import type { DatabasePool } from "slonik";
import { readServerStatus } from "../../db/serverStatus.ts";
import type { HealthChecks } from "./healthEndpoints.ts";

/** Shorter than the patience of those who ask, so that they learn which part it is. */
const PATIENCE_MS = 2000;

const within = async <Result>(work: Promise<Result>, timeoutMs: number): Promise<Result> => {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error("no answer in time")), timeoutMs);
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
};

/** Looks whether the database and Temporal answer, each within two seconds. */
export const createHealthChecks = ({
  db,
  temporal,
}: {
  readonly db: DatabasePool;
  readonly temporal: Client;
}): HealthChecks => ({
  database: () => within(readServerStatus(db), PATIENCE_MS),
  temporal: () =>
    within(
      temporal.withDeadline(Date.now() + PATIENCE_MS, () =>
        temporal.workflowService.describeNamespace({ namespace: temporal.options.namespace }),
      ),
      PATIENCE_MS,
    ),
});
