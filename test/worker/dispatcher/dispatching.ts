import type { ExecutionContext } from "ava";
import { WorkflowNotFoundError } from "@temporalio/client";
import type { Client } from "@temporalio/client";
import { pino } from "pino";
import type { Logger } from "pino";
import type { CommonQueryMethods, DatabasePool } from "slonik";
import { acquireDispatcherLease } from "../../../modules/billing/sending/dispatcherLease.sql.ts";
import type { DispatcherLease } from "../../../modules/billing/sending/dispatcherLease.sql.ts";
import { sql } from "../../../db/sql.ts";
import { shardOf } from "../../../db/shards.rules.ts";
import { systemClock } from "../../../runtime/clock.ts";
import type { Clock } from "../../../runtime/clock.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { getDeploymentName } from "../../../modules/billing/deploymentName.ts";
import { refundRegistration } from "../../../modules/registrations/refundRegistration.ts";
import { runDispatcher } from "../../../worker/runDispatcher.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { refundWorkflowId, usageShardWorkflowId } from "../../../runtime/temporalNames.rules.ts";

/** Registers trees and refunds one. Returns the ids of the workflows that this requires. */
export const refundOneTree = async (
  db: DatabasePool,
): Promise<{ readonly refund: string; readonly sender: string }> => {
  const { id: accountId } = await createTestOrganization(db);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const tree = { accountId, mode: "test", kind: "tree" } as const;
  const { registration } = await writer.register({
    ...tree,
    count: 2,
    fractionalCount: 0,
    idempotencyKey: null,
    attribution: "",
    metadata: {},
    isLimited: false,
  });
  const billing = createBilling({ db, stripe: null });
  await refundRegistration({ db, clock: systemClock, billing }, tree, {
    id: registration.id,
    count: 1,
    reason: null,
    idempotencyKey: null,
  });
  const deployment = await getDeploymentName({ db, clock: systemClock });
  return {
    refund: refundWorkflowId(deployment, registration.id),
    sender: usageShardWorkflowId(deployment, shardOf(accountId)),
  };
};

/** Ends the lease of a leader that was killed, which lasts ten seconds and delays the next one's start. */
export const freeLease = async (db: CommonQueryMethods): Promise<void> => {
  await db.query(sql.typeAlias("void")`UPDATE dispatcher_lease SET expires_at = NULL`);
};

/** How long a seized lease lasts. A dispatcher whose own leases are much shorter ignores it. */
export const SEIZED_MS = 60_000;

/** Makes another process the holder of the lease, as if the leader's had expired. */
export const seizeLease = (db: DatabasePool): Promise<DispatcherLease> =>
  db.transaction(async (transaction) => {
    await freeLease(transaction);
    const lease = await acquireDispatcherLease(transaction, {
      holder: "other",
      durationMs: SEIZED_MS,
    });
    if (lease === null) {
      throw new Error("A free lease could not be acquired.");
    }
    return lease;
  });

/** Runs a dispatcher, without workers for what it starts, until `stop` or the end of the test. */
export const startDispatcher = async (
  t: ExecutionContext,
  {
    db,
    clock = systemClock,
    logger = pino({ enabled: false }),
    ...options
  }: {
    readonly db: DatabasePool;
    readonly clock?: Clock;
    readonly temporal: Client;
    readonly logger?: Logger;
    readonly leaseMs?: number;
    readonly toleratedSilenceMs?: number;
    readonly wakesUntilStuck?: number;
    readonly observeLeadership?: (isLeader: boolean) => void;
  },
): Promise<{ readonly stop: () => Promise<void> }> => {
  const deployment = await getDeploymentName({ db, clock: systemClock });
  const shutdown = new AbortController();
  const running = runDispatcher(
    { db, leases: db, clock, deployment, logger, ...options },
    shutdown.signal,
  );
  const stop = (): Promise<void> => {
    shutdown.abort();
    return running;
  };
  t.teardown(stop);
  return { stop };
};

/** Tells whether the dispatcher has started a workflow. */
export const isStarted = async (temporal: Client, workflowId: string): Promise<boolean> => {
  try {
    await temporal.workflow.getHandle(workflowId).describe();
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      return false;
    }
    throw error;
  }
};
