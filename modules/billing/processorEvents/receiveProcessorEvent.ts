import type { CommonQueryMethods } from "slonik";
import { readDeployment } from "../deployment.sql.ts";
import { insertProcessorEvent } from "./processorEvents.sql.ts";
import { findForeignMode, isProcessed } from "./processorEvents.rules.ts";
import type { ProcessorEvent } from "./processorEvents.rules.ts";
import type { Clock } from "../../../runtime/clock.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";

/**
 * Stores an event that a webhook has announced, for a worker to process.
 * @param observeForeignMode called with the reason before an event of Stripe's other mode is rejected
 * @returns `repeated` if it was stored before, `ignored` if nothing depends on events of its type
 * @throws DomainError request_invalid if the event is of Stripe's other mode than the deployment
 */
export const receiveProcessorEvent = async (
  {
    db,
    clock,
    observeForeignMode,
  }: {
    readonly db: CommonQueryMethods;
    readonly clock: Clock;
    readonly observeForeignMode: (reason: string) => void;
  },
  event: ProcessorEvent,
): Promise<"stored" | "repeated" | "ignored"> => {
  const { processor } = await readDeployment(db);
  const foreign = findForeignMode(event, processor);
  if (foreign !== null) {
    observeForeignMode(foreign);
    throw invalidRequest(foreign);
  }
  if (!isProcessed(event.type)) {
    return "ignored";
  }
  return (await insertProcessorEvent(db, event, clock.now())) ? "stored" : "repeated";
};
