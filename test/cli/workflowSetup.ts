import type { ExecutionContext } from "ava";
import type { Client } from "@temporalio/client";
import { z } from "zod";
import { systemClock } from "../../runtime/clock.ts";
import { getDeploymentName } from "../../modules/billing/deploymentName.ts";
import { usageSender } from "../../workflows/usageSender.ts";
import { usageSenderWorkflowId } from "../../runtime/temporalNames.rules.ts";
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

/** Starts a sender on a task queue without workers. */
export const startSender = async ({
  client,
  deployment,
}: Scene): Promise<{ accountId: string; workflowId: string }> => {
  const accountId = crypto.randomUUID();
  const stream = { accountId, mode: "test", kind: "tree" } as const;
  const workflowId = usageSenderWorkflowId(deployment, stream);
  await client.workflow.start(usageSender, {
    workflowId,
    taskQueue: "without-workers",
    args: [stream],
  });
  return { accountId, workflowId };
};

/** What `workflow list --json` prints. */
export const listed = z.array(z.looseObject({ workflow_id: z.string(), status: z.string() }));
