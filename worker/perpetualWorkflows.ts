import type { Client } from "@temporalio/client";
import { WorkflowNotFoundError } from "@temporalio/common";
import type { Logger } from "pino";
import type { PerpetualKind } from "../runtime/perpetualWork.rules.ts";
import { listLastPasses } from "../db/perpetualWork.sql.ts";
import type { Context } from "../runtime/context.ts";
import { backgroundQueue, inDeployment } from "../runtime/temporalNames.rules.ts";
import { perpetualWork } from "../workflows/perpetualWork.ts";
import { callTemporal } from "./repeatedCalls.ts";

/** They look for work every second, unless that takes longer. */
const SILENT_AFTER_MS = 60_000;

/** The longest activity of theirs; Temporal ends a longer one. */
const LONGEST_ACTIVITY_MS = 2 * 60 * 1000;

type ProtoTime = { readonly seconds?: { toNumber: () => number } | null } | null | undefined;

const toMs = (time: ProtoTime): number => (time?.seconds?.toNumber() ?? 0) * 1000;

/**
 * Returns whether a workflow is running although Temporal has started none of its runs and activities for so long that it
 * has lost track of them: its latest state was lost, or its next task never runs.
 */
const isStuck = async (temporal: Client, workflowId: string, now: Date): Promise<boolean> => {
  try {
    const { status, startTime, raw } = await temporal.workflow.getHandle(workflowId).describe();
    const startedAtMs = Math.max(
      startTime.getTime(),
      ...(raw.pendingActivities ?? []).map(({ lastStartedTime }) => toMs(lastStartedTime)),
    );
    return status.name === "RUNNING" && now.getTime() - startedAtMs > LONGEST_ACTIVITY_MS;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      return false;
    }
    throw error;
  }
};

export type PerpetualContext = Context & {
  readonly temporal: Client;
  /** The deployment's name in Temporal. */
  readonly deployment: string;
  readonly logger: Logger;
  /** How long a workflow may look for no work. */
  readonly silentAfterMs?: number;
};

/**
 * Returns a function that starts the perpetual workflows that do not run, and restarts those that are stuck. Temporal runs
 * one workflow of an id at a time. The activity of a terminated one may still be running in some process, which does no
 * harm: the leases of meter events and of deliveries keep two attempts from being made at the same time, the workflows
 * that the dispatcher starts have ids of their own, and its statements can be repeated.
 */
export const createEnsurePerpetual = ({
  db,
  clock,
  temporal,
  deployment,
  logger,
  silentAfterMs = SILENT_AFTER_MS,
}: PerpetualContext): (() => Promise<void>) => {
  // While no worker ran, nothing looked for work.
  const startedAtMs = performance.now();

  const ensure = async (kind: PerpetualKind, ageSeconds: number): Promise<void> => {
    const workflowId = inDeployment(deployment, kind);
    // A pass in the future was recorded before the clock was set back.
    const silentMs = Math.min(Math.abs(ageSeconds) * 1000, performance.now() - startedAtMs);
    const isSilent = silentMs >= silentAfterMs;
    const isRestarted = isSilent && (await isStuck(temporal, workflowId, clock.now()));
    await temporal.workflow.start(perpetualWork, {
      workflowId,
      workflowIdConflictPolicy: isRestarted ? "TERMINATE_EXISTING" : "USE_EXISTING",
      taskQueue: backgroundQueue(deployment),
      args: [kind],
    });
    if (isSilent) {
      logger.error(
        { workflowId, silentSeconds: Math.round(silentMs / 1000), isRestarted },
        "a workflow has not looked for work; usage, refunds or events wait in the database",
      );
    }
  };

  return async () => {
    for (const { kind, ageSeconds } of await listLastPasses(db)) {
      await callTemporal(temporal, () => ensure(kind, ageSeconds));
    }
  };
};
