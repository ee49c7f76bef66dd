import { listProcessorEvents } from "../../../db/billing/processorEvents/processorEvents.ts";
import type { ProcessorEventState } from "../../../domain/billing/processorEvents.ts";
import { resolveProcessorEvent } from "../../../services/billing/processorEvents/resolveProcessorEvent.ts";
import type { CliContext } from "../../context.ts";
import { say } from "../../io.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson, printList } from "../../output/print.ts";
import { sayIfMore } from "../../output/sayIfMore.ts";

export type ListEventsOptions = {
  readonly state: ProcessorEventState;
  readonly limit: number;
  readonly json?: true;
};

export const listEvents = async (
  { io, connections }: CliContext,
  { state, limit, json }: ListEventsOptions,
): Promise<void> => {
  const db = await connections.database();
  const events = await listProcessorEvents(db, state, limit + 1);
  printList(
    { io, json },
    events.slice(0, limit),
    (event) => ({
      event_id: event.id,
      type: event.type,
      object_id: event.objectId,
      state: event.state,
      attempts: event.attempts,
      received_at: event.receivedAt,
      settled_at: event.settledAt,
      last_error: event.lastError,
    }),
    {
      event: (event) => event.id,
      state: (event) => event.state,
      type: (event) => event.type,
      object: (event) => event.objectId,
      received: (event) => event.receivedAt,
      attempts: (event) => event.attempts,
      "last error": (event) => event.lastError,
    },
  );
  sayIfMore(io, events.length, limit);
};

const STATES = { retry: "pending", discard: "discarded" };

const describeResult = (id: string, action: "retry" | "discard", changed: boolean): string => {
  if (action === "retry") {
    return changed
      ? `A worker processes event ${id} again. If it fails, see: impact deployment list-events`
      : `Event ${id} is being processed already.`;
  }
  return changed ? `Discarded event ${id}.` : `Event ${id} was already discarded.`;
};

export const resolveEvent = async (
  context: CliContext,
  id: string,
  action: "retry" | "discard",
  { json, ...options }: ChangeOptions,
): Promise<void> => {
  const { io } = context;
  const deps = await openChange(context, options);
  const changed = await resolveProcessorEvent(deps, id, action);
  if (json) {
    printJson(io, { event_id: id, state: STATES[action], changed });
  }
  say(io, describeResult(id, action, changed));
};
