import type { Client } from "@temporalio/client";
import { inDeployment } from "../../../workflows/inDeployment.ts";
import { plantingOrderCreationId } from "../../../workflows/plantingOrderCreation.ts";
import { reconciliationId } from "../../../workflows/reconciliation.ts";
import { retentionId } from "../../../workflows/retention.ts";
import { subscriptionSweepId } from "../../../workflows/subscriptionSweep.ts";
import { callTemporal } from "../../callTemporal.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";

const NAMED = /^(?<deployment>[0-9a-f]{8})\//u;

/**
 * Returns a workflow's id in Temporal. The documentation, the API and logs have ids without the deployment's name.
 * @throws CommandError if the id is another deployment's
 */
export const workflowIdOf = (deployment: string, given: string): string => {
  const other = NAMED.exec(given)?.groups?.["deployment"];
  if (other === undefined) {
    return inDeployment(deployment, given);
  }
  if (other !== deployment) {
    throw new CommandError(
      EXIT.notFound,
      `Workflow ${given} belongs to the deployment ${other}. This database's deployment is ${deployment}.`,
    );
  }
  return given;
};

/** What visibility queries take as text. */
export const quote = (value: string): string =>
  `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

/**
 * Returns the id of a schedule's latest workflow: Temporal adds the time to the ids of those that a schedule starts. Other
 * ids are returned as they are.
 * @throws CommandError if Temporal has no workflow of the schedule
 */
export const latestScheduledId = async (
  temporal: Client,
  deployment: string,
  workflowId: string,
): Promise<string> => {
  const scheduled = [
    plantingOrderCreationId(deployment),
    reconciliationId(deployment),
    retentionId(deployment),
    subscriptionSweepId(deployment),
  ];
  if (!scheduled.includes(workflowId)) {
    return workflowId;
  }
  return callTemporal(temporal, async () => {
    const query = `WorkflowId STARTS_WITH ${quote(`${workflowId}-`)}`;
    for await (const latest of temporal.workflow.list({ query, pageSize: 1 })) {
      return latest.workflowId;
    }
    throw new CommandError(
      EXIT.notFound,
      `Temporal has no workflow ${workflowId}: its schedule has not started one yet, or Temporal has deleted it after its retention time. ` +
        "To check that a worker is running, use impact doctor.",
    );
  });
};
