/**
 * Returns the name of a workflow, a schedule or a task queue in Temporal. Several deployments may share a namespace, so
 * each name starts with the deployment's.
 */
export const inDeployment = (deployment: string, name: string): string => `${deployment}/${name}`;

const named =
  (name: string) =>
  (deployment: string): string =>
    inDeployment(deployment, name);

const numbered =
  (kind: string) =>
  (deployment: string, id: string | number): string =>
    inDeployment(deployment, `${kind}-${id}`);

/** Work that no client waits for: usage, refunds, planting, webhooks, reconciliation. */
export const backgroundQueue = named("background");

/** Work that a client waits for: donations. Its workers are separate, so that no backlog delays a client. */
export const interactiveQueue = named("interactive");

/* The ids of workflows. They are not beside their workflows, which load Temporal's SDK. */

export const plantingOrderCreationId = named("planting-order-creation");
export const reconciliationId = named("reconciliation");
export const retentionId = named("retention");
export const plantingOrderWorkflowId = numbered("planting-order");
export const donationWorkflowId = numbered("donation");
export const refundWorkflowId = numbered("refund");

/** Returns the `refund_id` in responses, which is also the id of the workflow that completes the refund. */
export const refundIdOf = (registrationId: string): string => `refund-${registrationId}`;
