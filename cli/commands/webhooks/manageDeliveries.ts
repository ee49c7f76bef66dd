import { counted } from "../../../domain/counted.ts";
import type { DeliveryState } from "../../../domain/webhooks/decideDelivery.ts";
import { getWebhookEndpoint } from "../../../services/webhooks/getWebhookEndpoint.ts";
import { readDeliveries, readDelivery } from "../../../services/webhooks/readDeliveries.ts";
import { recoverWebhookEvents } from "../../../services/webhooks/recoverWebhookEvents.ts";
import type { RecoveryPositions } from "../../../services/webhooks/recoverWebhookEvents.ts";
import { retryWebhookDelivery } from "../../../services/webhooks/retryWebhookDelivery.ts";
import type { CliContext } from "../../context.ts";
import { say } from "../../io.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson, printList, printRows } from "../../output/print.ts";
import type { JsonOption } from "../../output/print.ts";
import { DELIVERY_COLUMNS, presentDelivery } from "./presentWebhook.ts";

export type ListDeliveriesOptions = JsonOption & {
  readonly state?: DeliveryState;
  readonly startingAfter?: string;
  readonly limit: number;
};

export const listEndpointDeliveries = async (
  { io, connections }: CliContext,
  id: string,
  { state, startingAfter, limit, json }: ListDeliveriesOptions,
): Promise<void> => {
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
};

export const showAttempts = async (
  { io, connections }: CliContext,
  id: string,
  event: string,
  { json }: JsonOption,
): Promise<void> => {
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
};

export const retryDelivery = async (
  context: CliContext,
  id: string,
  event: string,
  options: ChangeOptions,
): Promise<void> => {
  const deps = await openChange(context, options);
  const delivery = await retryWebhookDelivery(deps, await getWebhookEndpoint(deps.db, id), event);
  if (options.json) {
    printJson(context.io, presentDelivery(delivery));
  }
  say(context.io, `${event} is sent again within seconds.`);
};

export const recoverEvents = async (
  context: CliContext,
  id: string,
  options: ChangeOptions & { readonly since: Date },
): Promise<void> => {
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
};
