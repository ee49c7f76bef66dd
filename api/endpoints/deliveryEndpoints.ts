import { LRUCache } from "lru-cache";
import { z } from "zod";
import type { Delivery, DeliveryAttempt } from "../../modules/events/deliveries.sql.ts";
import { eventIdOf } from "../../modules/events/events.rules.ts";
import { mustBe, mustBeOneOf, oneOf } from "../../runtime/describeIssues.rules.ts";
import { DELIVERED_TYPES, RECOVERY_DAYS } from "../../modules/events/webhooks.rules.ts";
import { DELIVERY_STATES, KEPT_ATTEMPTS } from "../../modules/events/decideDelivery.rules.ts";
import { ENDPOINT_NOT_FOUND } from "../../modules/events/manageWebhookEndpoints.ts";
import { readDeliveries, readDelivery } from "../../modules/events/readDeliveries.ts";
import {
  recoverWebhookEvents,
  retryWebhookDelivery,
} from "../../modules/events/recoverWebhookEvents.ts";
import type { RecoveryPositions } from "../../modules/events/recoverWebhookEvents.ts";
import { pathParameter } from "../http/requestContext.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { queryError, READ_ERROR } from "../http/errorResponses.ts";
import { defaultedLimit, setNextLink } from "../http/listPages.ts";
import { bodyObject, queryObject } from "../http/parseRequest.ts";
import type { HttpContext } from "../context.ts";
import { getRequestedEndpoint, DISABLED_ERROR, EVENT_ID, TYPES_EXAMPLE } from "./webhookSchemas.ts";
import type { WebhookInterface } from "./webhookSchemas.ts";

type DeliveryReadsContext = Pick<HttpContext, "db" | "clock" | "reads"> & {
  /** The base URL of links; null if the interface has none. */
  readonly publicBaseUrl: (() => string) | null;
};

const TAG = "webhooks";

/** Recoveries that continue where they have ended. One that is forgotten reads its earlier events again. */
const MAXIMUM_POSITIONS = 1000;

const SINCE_MUST_BE = `a time of the last ${RECOVERY_DAYS} days, such as 2025-06-01T12:00:00Z`;

const ENDPOINT_PARAMETER = { id: "The id of the endpoint." };
const DELIVERY_PARAMETERS = {
  ...ENDPOINT_PARAMETER,
  delivery_id: "The id of the delivery, which is the event's.",
};

const deliveryFields = {
  id: z.string().meta({
    description: "The id of the event, the same as in an organization's feed.",
    examples: [EVENT_ID],
  }),
  // Not an enumeration, because a newer release of the service may have recorded it.
  type: z.string().meta({
    description: `A type of events that an endpoint can choose, or \`ping\`: ${DELIVERED_TYPES.map((type) => `\`${type}\``).join(", ")}. Later releases may add others.`,
    examples: ["registration.refunded"],
  }),
  timestamp: z.iso.datetime().meta({ description: "When it happened." }),
  state: z.enum(DELIVERY_STATES).meta({
    description:
      "`pending`: another attempt follows, unless the endpoint is disabled. `delivered`: the server has accepted it. `failed`: no attempt follows.",
  }),
  attempt_count: z.int().min(0),
  created_at: z.iso.datetime(),
  next_attempt_at: z.iso.datetime().nullable(),
};

const delivery = z.strictObject(deliveryFields).meta({ id: "WebhookDelivery" });

const attempt = z
  .strictObject({
    number: z.int().min(1),
    started_at: z.iso.datetime(),
    duration_ms: z.int().min(0),
    status: z.int().nullable().meta({ description: "Of the response; null if none arrived." }),
    error: z.string().nullable().meta({ description: "Why it failed; null if it succeeded." }),
    response: z.string().nullable().meta({ description: "The first KiB of the response's body." }),
  })
  .meta({ id: "WebhookAttempt" });

const deliveryWithAttempts = z
  .strictObject({
    ...deliveryFields,
    attempts: z.array(attempt).meta({ description: `The last ${KEPT_ATTEMPTS}, oldest first.` }),
  })
  .meta({ id: "WebhookDeliveryWithAttempts" });

const listResponse = z
  .strictObject({ deliveries: z.array(delivery), has_more: z.boolean() })
  .meta({ id: "WebhookDeliveryList" });

const recoverResponse = z
  .strictObject({
    recovered_count: z.int().min(0),
    has_more: z.boolean().meta({
      description: "Whether more events can be recovered; repeat the request with the same time.",
    }),
  })
  .meta({ id: "WebhookRecovery" });

const presentDelivery = (given: Delivery): z.output<typeof delivery> => ({
  id: eventIdOf(given),
  type: given.type,
  timestamp: given.occurredAt.toISOString(),
  state: given.state,
  attempt_count: given.attempts,
  created_at: given.createdAt.toISOString(),
  next_attempt_at: given.dueAt?.toISOString() ?? null,
});

const presentAttempt = (given: DeliveryAttempt): z.output<typeof attempt> => ({
  number: given.number,
  started_at: given.startedAt.toISOString(),
  duration_ms: given.durationMs,
  status: given.status,
  error: given.error,
  response: given.response,
});

const EXAMPLE: z.output<typeof delivery> = {
  id: EVENT_ID,
  type: "registration.refunded",
  timestamp: "2025-06-01T12:03:24.000Z",
  state: "pending",
  attempt_count: 1,
  created_at: "2025-06-01T12:03:24.000Z",
  next_attempt_at: "2025-06-01T12:03:31.000Z",
};

const listQuery = queryObject({
  state: oneOf(DELIVERY_STATES)
    .optional()
    .meta({
      description:
        "Only deliveries in this state. `failed` also finds pending deliveries whose last attempt failed.",
      examples: ["failed"],
    }),
  limit: defaultedLimit("deliveries"),
  starting_after: z
    .string()
    .optional()
    .meta({ description: "The id of the last delivery of the previous page." }),
});

const recoverBody = bodyObject({
  since: z.iso
    .datetime({ offset: true, error: mustBe(SINCE_MUST_BE) })
    .meta({ description: "Events from this time on.", examples: ["2025-06-01T12:00:00Z"] }),
}).meta({ id: "NewWebhookRecovery" });

const createCommonParts = ({ accountType, prefix }: WebhookInterface) => ({
  path: `${prefix}/webhook_endpoints/:id`,
  notFoundError: {
    code: "record_not_found",
    when: `The ${accountType} has no such endpoint or delivery in the key's mode.`,
    example: ENDPOINT_NOT_FOUND,
  } as const,
  example: { ...EXAMPLE, type: TYPES_EXAMPLE[accountType][0] },
});

const listEndpoint = (
  { db, reads, publicBaseUrl }: DeliveryReadsContext,
  on: WebhookInterface,
): Endpoint => {
  const { path, notFoundError, example } = createCommonParts(on);
  return keyEndpoint({
    method: "get",
    path: `${path}/deliveries`,
    description: {
      operationId: "listWebhookDeliveries",
      tag: TAG,
      summary: "List an endpoint's deliveries",
      details: "Newest first. They are kept for 30 days.",
      pathParameters: ENDPOINT_PARAMETER,
      ...(publicBaseUrl === null
        ? {}
        : {
            responseHeaders: {
              Link: 'The URL of the next page, as `<…>; rel="next"`. Absent on the last page.',
            },
          }),
      errors: [
        queryError(`state: ${mustBeOneOf(DELIVERY_STATES)}`),
        on.keyError,
        notFoundError,
        READ_ERROR,
      ],
    },
    schemas: { query: listQuery, response: listResponse },
    examples: { response: { deliveries: [example], has_more: false } },
    handle: async ({ ctx, caller, query: { state, limit, starting_after } }) => {
      const { id } = await getRequestedEndpoint(db, ctx, caller);
      // Many deliveries may have to be read to find those in a state.
      const pool = state === undefined ? db : reads;
      const { deliveries, hasMore } = await readDeliveries(pool, id, {
        state: state ?? null,
        startingAfter: starting_after ?? null,
        limit,
      });
      const presented = deliveries.map(presentDelivery);
      const last = presented.at(-1);
      if (hasMore && last && publicBaseUrl !== null) {
        setNextLink(ctx, publicBaseUrl(), { starting_after: last.id });
      }
      return { deliveries: presented, has_more: hasMore };
    },
  });
};

const readEndpoint = ({ db }: DeliveryReadsContext, on: WebhookInterface): Endpoint => {
  const { path, notFoundError, example } = createCommonParts(on);
  return keyEndpoint({
    method: "get",
    path: `${path}/deliveries/:delivery_id`,
    description: {
      operationId: "readWebhookDelivery",
      tag: TAG,
      summary: "Read a delivery with its attempts",
      pathParameters: DELIVERY_PARAMETERS,
      errors: [on.keyError, notFoundError, READ_ERROR],
    },
    schemas: { response: deliveryWithAttempts },
    examples: {
      response: {
        ...example,
        attempts: [
          {
            number: 1,
            started_at: "2025-06-01T12:03:25.000Z",
            duration_ms: 87,
            status: 503,
            error: "status 503",
            response: "busy",
          },
        ],
      },
    },
    handle: async ({ ctx, caller }) => {
      const { id } = await getRequestedEndpoint(db, ctx, caller);
      const read = await readDelivery(db, id, pathParameter(ctx, "delivery_id"));
      return { ...presentDelivery(read.delivery), attempts: read.attempts.map(presentAttempt) };
    },
  });
};

const retryEndpoint = ({ db, clock }: DeliveryReadsContext, on: WebhookInterface): Endpoint => {
  const { path, notFoundError, example } = createCommonParts(on);
  return keyEndpoint({
    method: "post",
    path: `${path}/deliveries/:delivery_id/retry`,
    description: {
      operationId: "retryWebhookDelivery",
      tag: TAG,
      summary: "Retry a delivery",
      details:
        "Sends the event again within seconds, also if it was delivered. If that fails, the schedule of retries begins again.",
      pathParameters: DELIVERY_PARAMETERS,
      errors: [DISABLED_ERROR, on.keyError, notFoundError],
    },
    schemas: { response: delivery },
    examples: { response: example },
    handle: async ({ ctx, caller }) =>
      presentDelivery(
        await retryWebhookDelivery(
          { db, clock, actor: null },
          await getRequestedEndpoint(db, ctx, caller),
          pathParameter(ctx, "delivery_id"),
        ),
      ),
  });
};

const recoveryEndpoint = ({ db, clock }: DeliveryReadsContext, on: WebhookInterface): Endpoint => {
  const { path, notFoundError } = createCommonParts(on);
  const positions: RecoveryPositions = new LRUCache({ max: MAXIMUM_POSITIONS });
  return keyEndpoint({
    method: "post",
    path: `${path}/recover`,
    description: {
      operationId: "recoverWebhookEvents",
      tag: TAG,
      summary: "Recover missed events",
      details:
        `Sends the events since a time of the last ${RECOVERY_DAYS} days that the endpoint wants and has not received: those that ` +
        "were recorded while it was disabled or did not exist, and those whose delivery failed or waits for its next attempt.",
      pathParameters: ENDPOINT_PARAMETER,
      errors: [
        {
          code: "request_invalid",
          when: "The time is missing, malformed, in the future or too long ago, or the endpoint is disabled.",
          example: `since: must be ${SINCE_MUST_BE}`,
        },
        on.keyError,
        notFoundError,
      ],
    },
    schemas: { body: recoverBody, response: recoverResponse },
    examples: {
      body: { since: "2025-06-01T12:00:00Z" },
      response: { recovered_count: 12, has_more: false },
    },
    handle: async ({ ctx, caller, body: { since } }) => {
      const { recovered, hasMore } = await recoverWebhookEvents(
        { db, clock, actor: null },
        await getRequestedEndpoint(db, ctx, caller),
        new Date(since),
        positions,
      );
      return { recovered_count: recovered, has_more: hasMore };
    },
  });
};

/** The endpoints of what was sent, and of sending it again. */
export const deliveryEndpoints = (
  context: DeliveryReadsContext,
  on: WebhookInterface,
): readonly Endpoint[] =>
  [listEndpoint, readEndpoint, retryEndpoint, recoveryEndpoint].map((define) =>
    define(context, on),
  );
