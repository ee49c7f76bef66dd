import { wakePlantingOrder } from "../../../program/temporal/wakePlantingOrder.ts";
import type { CliContext } from "../../context.ts";
import { say } from "../../io.ts";

const WAKE_TIMEOUT_MS = 5000;

/** Wakes an order's workflow. Without Temporal, the workflow finds the facts at its next poll. */
export const wakeOrder = async (
  { io, connections }: Pick<CliContext, "io" | "connections">,
  orderId: number,
): Promise<void> => {
  const temporal = await connections.temporal().catch(() => null);
  const isNotified =
    temporal !== null &&
    (await wakePlantingOrder(
      temporal,
      connections.decidedDeploymentName,
      orderId,
      WAKE_TIMEOUT_MS,
    ));
  if (!isNotified) {
    say(io, "The order's workflow could not be notified; it finds the facts at its next poll.");
  }
};
