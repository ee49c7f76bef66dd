import { Option } from "commander";
import type { Command } from "commander";
import { listProcessorEvents } from "../../modules/billing/processorEvents/processorEvents.sql.ts";
import { PROCESSOR_EVENT_STATES } from "../../modules/billing/processorEvents/processorEvents.rules.ts";
import type { ProcessorEventState } from "../../modules/billing/processorEvents/processorEvents.rules.ts";
import { resolveProcessorEvent } from "../../modules/billing/processorEvents/resolveProcessorEvent.ts";
import { parseLimit, parseProcessorEventId, parseReason } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { say } from "../io.ts";
import { openChange, operatorOption, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { printJson, printList, sayIfMore } from "../output/print.ts";

type ListEventsOptions = {
  readonly state: ProcessorEventState;
  readonly limit: number;
  readonly json?: true;
};

const addListEventsCommand = (parent: Command, { io, connections }: CliContext): void => {
  parent
    .command("list-events")
    .description("List the Stripe events that webhooks announced, latest first")
    .addOption(
      new Option("--state <state>", "state of the events")
        .choices(PROCESSOR_EVENT_STATES)
        .default("failed"),
    )
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .action(async ({ state, limit, json }: ListEventsOptions) => {
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
    });
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

const resolveEvent = async (
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

const RETRY_EVENT_HELP = `
A worker reads the event at Stripe once more. Stripe keeps events for 30 days. An event
that fails again within seven days of its webhook is tried again later by itself.`;

const addRetryEventCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("retry-event")
      .description("Retry a failed Stripe event")
      .argument("<id>", "id of the event, evt_…", parseProcessorEventId),
  )
    .addHelpText("after", RETRY_EVENT_HELP)
    .action((id: string, options: ChangeOptions) => resolveEvent(context, id, "retry", options));
};

const DISCARD_EVENT_HELP = `
Discarding changes nothing at Stripe and no usage. First find out what the event meant: a
report of refused usage shows as drift in impact usage reconcile, and a change of a
subscription is read every night.`;

const addDiscardEventCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("discard-event")
    .description("Close a failed Stripe event without processing it")
    .argument("<id>", "id of the event, evt_…", parseProcessorEventId)
    .requiredOption("--reason <text>", "reason for the audit log", parseReason)
    .addOption(operatorOption())
    .addHelpText("after", DISCARD_EVENT_HELP)
    .action((id: string, options: ChangeOptions) => resolveEvent(context, id, "discard", options));
};

export const addEventCommands = (deployment: Command, context: CliContext): void => {
  addListEventsCommand(deployment, context);
  addRetryEventCommand(deployment, context);
  addDiscardEventCommand(deployment, context);
};
