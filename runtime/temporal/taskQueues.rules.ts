import { inDeployment } from "./inDeployment.rules.ts";

/** Work that no client waits for: usage, refunds, planting, reconciliation. */
export const backgroundQueue = (deployment: string): string =>
  inDeployment(deployment, "background");

/** Work that a client waits for: donations. Its workers are separate, so that no backlog delays a client. */
export const interactiveQueue = (deployment: string): string =>
  inDeployment(deployment, "interactive");

/** Calls of clients' servers. Its workers are separate, so that slow servers delay neither billing nor donations. */
export const webhookQueue = (deployment: string): string => inDeployment(deployment, "webhooks");
