import { Option } from "commander";
import type { Command } from "commander";
import type { Delivery } from "../../modules/events/deliveries.sql.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { eventIdOf } from "../../modules/events/events.rules.ts";
import { DELIVERY_STATES } from "../../modules/events/decideDelivery.rules.ts";
import type { DeliveryState } from "../../modules/events/decideDelivery.rules.ts";
import { getWebhookEndpoint } from "../../modules/events/manageWebhookEndpoints.ts";
import { readDeliveries, readDelivery } from "../../modules/events/readDeliveries.ts";
import {
  recoverWebhookEvents,
  retryWebhookDelivery,
} from "../../modules/events/recoverWebhookEvents.ts";
import type { RecoveryPositions } from "../../modules/events/recoverWebhookEvents.ts";
import { parseEventId, parseId, parseLimit } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { say } from "../io.ts";
import { openChange, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { printJson, printList, printRows } from "../output/print.ts";
import type { Columns, JsonOption } from "../output/print.ts";
import { sinceOption } from "../timeRange.ts";

/** The JSON form of a delivery. */
const presentDelivery = (delivery: Delivery) => ({
  id: eventIdOf(delivery),
  type: delivery.type,
  timestamp: delivery.occurredAt,
  state: delivery.state,
  attempt_count: delivery.attempts,
  created_at: delivery.createdAt,
  next_attempt_at: delivery.dueAt,
});

const DELIVERY_COLUMNS: Columns<Delivery> = {
  event: (delivery) => eventIdOf(delivery),
  type: (delivery) => delivery.type,
  state: (delivery) => delivery.state,
  attempts: (delivery) => delivery.attempts,
  created: (delivery) => delivery.createdAt,
  "next attempt": (delivery) => delivery.dueAt,
};

type ListDeliveriesOptions = JsonOption & {
  readonly state?: DeliveryState;
  readonly startingAfter?: string;
  readonly limit: number;
};

export const ENDPOINT = [
  "<endpoint-id>",
  "id of the endpoint, from `webhook list`",
  parseId,
] as const;

const addDeliveriesCommand = (parent: Command, { io, connections }: CliContext): void => {
  parent
    .command("deliveries")
    .description("List an endpoint's deliveries, newest first")
    .argument(...ENDPOINT)
    .addOption(
      new Option(
        "--state <state>",
        "only deliveries in this state; failed: also pending ones whose last attempt failed",
      ).choices(DELIVERY_STATES),
    )
    .option("--starting-after <event>", "only deliveries before the one with this id", parseEventId)
    .option("--limit <n>", "maximum rows", parseLimit, 100)
    .action(async (id: string, { state, startingAfter, limit, json }: ListDeliveriesOptions) => {
      const db = await connections.database();
      const endpoint = await getWebhookEndpoint(db, id);
      const { deliveries, hasMore } = await readDeliveries(db, endpoint.id, {
        state: state ?? null,
        startingAfter: startingAfter ?? null,
        limit,
      });
      printList({ io, json }, deliveries, presentDelivery, DELIVERY_COLUMNS);
      if (hasMore) {
        say(io, "More deliveries exist. Raise --limit, or continue with --starting-after.");
      }
    });
};

const EVENT = ["<event>", "id of the event, from `webhook deliveries`", parseEventId] as const;

const addAttemptsCommand = (parent: Command, { io, connections }: CliContext): void => {
  parent
    .command("attempts")
    .description("Show a delivery with its attempts and their responses")
    .argument(...ENDPOINT)
    .argument(...EVENT)
    .action(async (id: string, event: string, { json }: JsonOption) => {
      const db = await connections.database();
      const endpoint = await getWebhookEndpoint(db, id);
      const { delivery, attempts } = await readDelivery(db, endpoint.id, event);
      if (json) {
        printJson(io, {
          ...presentDelivery(delivery),
          attempts: attempts.map(({ startedAt, durationMs, ...attempt }) => ({
            ...attempt,
            started_at: startedAt,
            duration_ms: durationMs,
          })),
        });
        return;
      }
      printRows(io, [delivery], DELIVERY_COLUMNS);
      printRows(io, attempts, {
        attempt: (attempt) => attempt.number,
        started: (attempt) => attempt.startedAt,
        ms: (attempt) => attempt.durationMs,
        status: (attempt) => attempt.status,
        error: (attempt) => attempt.error,
        response: (attempt) => attempt.response,
      });
    });
};

const addRetryCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("retry")
      .description("Retry a delivery, also one that has succeeded")
      .argument(...ENDPOINT)
      .argument(...EVENT),
  ).action(async (id: string, event: string, options: ChangeOptions) => {
    const deps = await openChange(context, options);
    const delivery = await retryWebhookDelivery(deps, await getWebhookEndpoint(deps.db, id), event);
    if (options.json) {
      printJson(context.io, presentDelivery(delivery));
    }
    say(context.io, `${event} is sent again within seconds.`);
  });
};

const addRecoverCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("recover")
      .description("Send the events of the last 14 days that an endpoint has not received now")
      .argument(...ENDPOINT)
      .addOption(sinceOption().makeOptionMandatory()),
  ).action(async (id: string, options: ChangeOptions & { readonly since: Date }) => {
    const { io } = context;
    const deps = await openChange(context, options);
    const endpoint = await getWebhookEndpoint(deps.db, id);
    const positions: RecoveryPositions = new Map();
    let total = 0;
    for (;;) {
      const { recovered, hasMore } = await recoverWebhookEvents(
        deps,
        endpoint,
        options.since,
        positions,
      );
      total += recovered;
      if (!hasMore) {
        break;
      }
    }
    if (options.json) {
      printJson(io, { recovered_count: total });
    }
    say(
      io,
      total === 0
        ? "The endpoint has missed nothing."
        : `${counted(total, "missed event is", "missed events are")} sent now.`,
    );
  });
};

export const addDeliveryCommands = (webhook: Command, context: CliContext): void => {
  addDeliveriesCommand(webhook, context);
  addAttemptsCommand(webhook, context);
  addRetryCommand(webhook, context);
  addRecoverCommand(webhook, context);
};
