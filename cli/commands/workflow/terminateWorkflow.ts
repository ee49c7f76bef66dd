import { callTemporal } from "../../callTemporal.ts";
import type { Context } from "../../context.ts";
import { say } from "../../io.ts";
import { formatTime } from "../../output/formatTable.ts";
import { printJson } from "../../output/print.ts";

export type TerminateOptions = {
  readonly reason: string;
  readonly run?: string;
  readonly json?: true;
};

export const terminateWorkflow = async (
  { io, connections, clock }: Context,
  workflowId: string,
  { reason, run, json }: TerminateOptions,
): Promise<void> => {
  const temporal = await connections.temporal();
  await callTemporal(temporal, () =>
    temporal.workflow.getHandle(workflowId, run).terminate(reason),
  );
  if (json) {
    printJson(io, { workflow_id: workflowId, status: "TERMINATED", reason });
    return;
  }
  say(io, `Terminated ${workflowId} at ${formatTime(clock.now())}.`);
};
