import { recordAction } from "../../../services/accounts/recordAction.ts";
import { callTemporal } from "../../callTemporal.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { say } from "../../io.ts";
import { actorOf } from "../../operator.ts";
import type { ReasonedOptions } from "../../operator.ts";
import { formatTime } from "../../output/formatTable.ts";
import { printJson } from "../../output/print.ts";
import { formatStatus } from "./presentWorkflow.ts";
import { latestScheduledId, workflowIdOf } from "./workflowIds.ts";

export type TerminateOptions = ReasonedOptions & {
  readonly run?: string;
};

export const terminateWorkflow = async (
  { io, connections, clock }: CliContext,
  given: string,
  { reason, as, run, json }: TerminateOptions,
): Promise<void> => {
  const deployment = await connections.decidedDeploymentName();
  const temporal = await connections.temporal();
  const workflowId = await latestScheduledId(temporal, deployment, workflowIdOf(deployment, given));
  const handle = temporal.workflow.getHandle(workflowId, run);
  const description = await callTemporal(temporal, () => handle.describe());
  if (description.status.name !== "RUNNING") {
    throw new CommandError(
      EXIT.notFound,
      `Workflow ${workflowId} is not running: its status is ${formatStatus(description)}.`,
    );
  }
  await recordAction(await connections.database(), actorOf({ as, reason }), clock.now(), {
    action: "workflow.terminate",
    subject: workflowId,
    details: { run },
  });
  await callTemporal(temporal, () => handle.terminate(reason));
  if (json) {
    printJson(io, { workflow_id: workflowId, status: "terminated", reason });
    return;
  }
  say(io, `Terminated ${workflowId} at ${formatTime(clock.now())}.`);
};
