import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import { counted } from "../../runtime/counted.rules.ts";
import { listDeliveries } from "../../modules/events/deliveries.sql.ts";
import { eventIdOf } from "../../modules/events/events.rules.ts";
import { DELIVERY_STATES } from "../../modules/events/decideDelivery.rules.ts";
import { getWebhookEndpoint } from "../../modules/events/manageWebhookEndpoints.ts";
import { recoverWebhookEvents } from "../../modules/events/recoverWebhookEvents.ts";
import { presentDelivery } from "../../modules/events/presentWebhooks.ts";
import { parseEventId, parseId, parseLimit } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openChange, withAudit } from "../operator.ts";
import { printList, printResult, sayIfMore } from "../output/print.ts";
import { sinceOption } from "../timeRange.ts";

export const ENDPOINT = [
  "<endpoint-id>",
  "id of the endpoint, from `webhook list`",
  parseId,
] as const;

const parseChosen = (eventId: string | undefined, since: Date | undefined) => {
  if (eventId !== undefined && since === undefined) {
    return { eventId };
  }
  if (eventId === undefined && since !== undefined) {
    return { since };
  }
  throw new CommandError(EXIT.usage, "Pass either the id of an event or --since.");
};

export const addDeliveryCommands = (webhook: Command, context: CliContext): void => {
  const { io, connections } = context;

  webhook
    .command("deliveries")
    .description("List an endpoint's deliveries with their last attempt, newest first")
    .argument(...ENDPOINT)
    .addOption(
      new Option(
        "--state <state>",
        "only deliveries in this state; failed: also pending ones whose last attempt failed",
      ).choices(DELIVERY_STATES),
    )
    .option("--limit <n>", "maximum rows", parseLimit, 100)
    .action(async (id, { state, limit }) => {
      const db = await connections.database();
      const endpoint = await getWebhookEndpoint(db, id);
      const found = await listDeliveries(db, endpoint.id, { state, limit: limit + 1 });
      const deliveries = found.slice(0, limit);
      printList(
        io,
        deliveries.map(presentDelivery),
        deliveries.map(({ lastAttempt, ...delivery }) => ({
          event: eventIdOf(delivery),
          type: delivery.type,
          state: delivery.state,
          attempts: delivery.attempts,
          created: delivery.createdAt,
          next_attempt: delivery.dueAt,
          ms: lastAttempt?.duration_ms ?? null,
          last_result: lastAttempt && (lastAttempt.error ?? lastAttempt.status),
        })),
      );
      sayIfMore(io, found.length, limit);
    });

  withAudit(
    webhook
      .command("recover")
      .description(
        "Send the events of the last 14 days that an endpoint has not received, or one event again",
      )
      .argument(...ENDPOINT)
      .argument("[event]", "id of one event, from `webhook deliveries`", parseEventId)
      .addOption(sinceOption()),
  ).action(async (id, eventId, { since, ...options }) => {
    const chosen = parseChosen(eventId, since);
    const deps = await openChange(context, options);
    const endpoint = await getWebhookEndpoint(deps.db, id);
    let total = 0;
    let hasMore = true;
    while (hasMore) {
      const part = await recoverWebhookEvents(deps, endpoint, chosen);
      total += part.recovered;
      ({ hasMore } = part);
    }
    printResult(io, { recovered_count: total });
    say(
      io,
      total === 0
        ? "The endpoint has missed nothing."
        : `${counted(total, "event is", "events are")} sent now.`,
    );
  });
};
