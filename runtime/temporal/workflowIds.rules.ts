import { inDeployment } from "./inDeployment.rules.ts";

/*
 * The ids of workflows that programs also print. They are not beside their workflows, which load Temporal's SDK.
 */

export const plantingOrderWorkflowId = (deployment: string, orderId: number): string =>
  inDeployment(deployment, `planting-order-${orderId}`);

/** Returns the `refund_id` in responses, which is also the id of the workflow that completes the refund. */
export const refundIdOf = (registrationId: string): string => `refund-${registrationId}`;

export const refundWorkflowId = (deployment: string, registrationId: string): string =>
  inDeployment(deployment, refundIdOf(registrationId));

/** Returns what the ids of an account's senders start with. */
export const usageSenderPrefix = (deployment: string, accountId: string): string =>
  inDeployment(deployment, `usage-sender/${accountId}/`);

/** Returns the id of a stream's only sender: the processor allows one concurrent call per customer and kind. */
export const usageSenderWorkflowId = (
  deployment: string,
  {
    accountId,
    mode,
    kind,
  }: { readonly accountId: string; readonly mode: string; readonly kind: string },
): string => `${usageSenderPrefix(deployment, accountId)}${mode}/${kind}`;

/** Returns the id of a shard's only sender. */
export const usageShardWorkflowId = (deployment: string, shard: number): string =>
  inDeployment(deployment, `usage-shard/${shard}`);

/** The signal that wakes an order's workflow after facts were recorded by a callback or an operator. */
export const FACTS_RECORDED = "factsRecorded";
