/**
 * Returns the name of a workflow, a schedule or a task queue in Temporal. Several deployments may share a namespace, so
 * each name starts with the deployment's.
 */
export const inDeployment = (deployment: string, name: string): string => `${deployment}/${name}`;

/** Work that no client waits for: usage, refunds, planting, webhooks, reconciliation. */
export const backgroundQueue = (deployment: string): string =>
  inDeployment(deployment, "background");

/** Work that a client waits for: donations. Its workers are separate, so that no backlog delays a client. */
export const interactiveQueue = (deployment: string): string =>
  inDeployment(deployment, "interactive");

/*
 * The ids of workflows. They are not beside their workflows, which load Temporal's SDK.
 */

export const plantingOrderWorkflowId = (deployment: string, orderId: number): string =>
  inDeployment(deployment, `planting-order-${orderId}`);

/** Returns the `refund_id` in responses, which is also the id of the workflow that completes the refund. */
export const refundIdOf = (registrationId: string): string => `refund-${registrationId}`;

export const refundWorkflowId = (deployment: string, registrationId: string): string =>
  inDeployment(deployment, refundIdOf(registrationId));

export const donationWorkflowId = (deployment: string, donationId: string): string =>
  inDeployment(deployment, `donation-${donationId}`);

export const plantingOrderCreationId = (deployment: string): string =>
  inDeployment(deployment, "planting-order-creation");

export const reconciliationId = (deployment: string): string =>
  inDeployment(deployment, "reconciliation");

export const retentionId = (deployment: string): string => inDeployment(deployment, "retention");
