import type { ExecutionContext } from "ava";
import type { Client } from "@temporalio/client";
import { z } from "zod";
import { systemClock } from "../../runtime/clock.ts";
import { getDeploymentName } from "../../modules/billing/holdUsage.ts";
import { refund } from "../../workflows/refund.ts";
import { refundWorkflowId } from "../../runtime/temporalNames.rules.ts";
import type { DatabaseContext } from "../support/database.ts";
import { openNamespace, TEMPORAL_ADDRESS } from "../support/programs.ts";
import { runImpact } from "./runImpact.ts";
import type { Run } from "./runImpact.ts";

export type Scene = {
  readonly client: Client;
  readonly deployment: string;
  readonly settings: Readonly<Record<string, string>>;
  readonly impact: (...args: readonly string[]) => Promise<Run>;
};

/** Opens a Temporal namespace for the deployment of the test's database. */
export const setUp = async (t: ExecutionContext<DatabaseContext>): Promise<Scene> => {
  const { namespace, client } = await openNamespace(t);
  const settings = {
    DATABASE_URL: t.context.databaseUrl,
    TEMPORAL_ADDRESS,
    TEMPORAL_NAMESPACE: namespace,
  };
  const deployment = await getDeploymentName({ db: t.context.db, clock: systemClock });
  return { client, deployment, settings, impact: (...args) => runImpact(args, { env: settings }) };
};

/** Starts the workflow of a refund on a task queue without workers. */
export const startRefund = async ({
  client,
  deployment,
}: Scene): Promise<{ workflowId: string }> => {
  const id = crypto.randomUUID();
  const workflowId = refundWorkflowId(deployment, id);
  await client.workflow.start(refund, { workflowId, taskQueue: "without-workers", args: [id] });
  return { workflowId };
};

/** What `workflow list --json` prints. */
export const listed = z.array(z.looseObject({ workflow_id: z.string(), status: z.string() }));
