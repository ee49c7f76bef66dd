import type { CommonQueryMethods } from "slonik";
import { insertProcessorEvent } from "../../../db/billing/processorEvents.ts";
import { isProcessed } from "../../../domain/billing/processorEvents.ts";
import type { ProcessorEvent } from "../../../domain/billing/processorEvents.ts";
import type { Clock } from "../../../domain/clock.ts";

/**
 * Stores an event that a webhook has announced, for a worker to process.
 * @returns `repeated` if it was stored before, `ignored` if nothing depends on events of its type
 */
export const receiveProcessorEvent = async (
  { db, clock }: { readonly db: CommonQueryMethods; readonly clock: Clock },
  event: ProcessorEvent,
): Promise<"stored" | "repeated" | "ignored"> => {
  if (!isProcessed(event.type)) {
    return "ignored";
  }
  return (await insertProcessorEvent(db, event, clock.now())) ? "stored" : "repeated";
};
