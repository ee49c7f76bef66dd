import { z } from "zod";
import { oneOf, mustBe, mustBeOneOf } from "../../runtime/describeIssues.rules.ts";
import { DELIVERED_TYPES, RECOVERY_DAYS } from "../../modules/events/webhooks.rules.ts";
import { DELIVERY_STATES } from "../../modules/events/decideDelivery.rules.ts";
import {
  readDeliveries,
  recoverWebhookEvents,
  retryWebhookDelivery,
} from "../../modules/events/manageDeliveries.ts";
import { presentDelivery } from "../../modules/events/presentWebhooks.ts";
import { pathParameter } from "../http/requestContext.ts";
import type { Endpoint, ErrorResponse } from "../http/endpoint.ts";
import { queryError, READ_ERROR } from "../http/errorResponses.ts";
import { defaultedLimit, setNextLink } from "../http/listPages.ts";
import { bodyObject, queryObject } from "../http/parseRequest.ts";
import { createDefine, DISABLED_ERROR } from "./webhookInterface.ts";
import type { WebhookHttpContext, WebhookInterface } from "./webhookInterface.ts";
import { EVENT_ID, TYPES_EXAMPLE } from "./webhookSchemas.ts";

const SINCE_MUST_BE = `a time of the last ${RECOVERY_DAYS} days, such as 2025-06-01T12:00:00Z`;

const recoverBody = bodyObject({
  since: z.iso
    .datetime({ offset: true, error: mustBe(SINCE_MUST_BE) })
    .meta({ description: "Events from this time on.", examples: ["2025-06-01T12:00:00Z"] }),
}).meta({ id: "NewWebhookRecovery" });

const SINCE_ERROR: ErrorResponse = {
  code: "request_invalid",
  when: "The time is missing, malformed, in the future or too long ago, or the endpoint is disabled.",
  example: `since: must be ${SINCE_MUST_BE}`,
};

const recoverySchema = z
  .strictObject({
    recovered_count: z.int().min(0),
    has_more: z.boolean().meta({
      description: "Whether more events can be recovered; repeat the request with the same time.",
    }),
  })
  .meta({ id: "WebhookRecovery" });

const attemptSchema = z
  .strictObject({
    started_at: z.iso.datetime(),
    duration_ms: z.int().min(0),
    status: z.int().nullable().meta({ description: "Of the response; null if none arrived." }),
    error: z.string().nullable().meta({ description: "Why it failed; null if it succeeded." }),
    response: z.string().nullable().meta({ description: "The first KiB of the response's body." }),
  })
  .meta({ id: "WebhookAttempt" });

const deliverySchema = z
  .strictObject({
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
    attempt_count: z
      .int()
      .min(0)
      .meta({ description: "Since the event, or since it was last retried or recovered." }),
    last_attempt: attemptSchema.nullable(),
    created_at: z.iso.datetime(),
    next_attempt_at: z.iso.datetime().nullable(),
  })
  .meta({ id: "WebhookDelivery" });

const deliveryListSchema = z
  .strictObject({ deliveries: z.array(deliverySchema), has_more: z.boolean() })
  .meta({ id: "WebhookDeliveryList" });

const deliveryQuery = queryObject({
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

const EXAMPLE: z.output<typeof deliverySchema> = {
  id: EVENT_ID,
  type: "registration.refunded",
  timestamp: "2025-06-01T12:03:24.000Z",
  state: "pending",
  attempt_count: 1,
  last_attempt: {
    started_at: "2025-06-01T12:03:25.000Z",
    duration_ms: 87,
    status: 503,
    error: "status 503",
    response: "busy",
  },
  created_at: "2025-06-01T12:03:24.000Z",
  next_attempt_at: "2025-06-01T12:03:31.000Z",
};

const listEndpoint = (context: WebhookHttpContext, on: WebhookInterface): Endpoint => {
  const { db, reads, publicBaseUrl } = context;
  const example = { ...EXAMPLE, type: TYPES_EXAMPLE[on.accountType][0] };
  return createDefine(context, on)(
    ["get", "/deliveries"],
    {
      description: {
        operationId: "listWebhookDeliveries",
        summary: "List an endpoint's deliveries",
        details: "Newest first, each with its last attempt. They are kept for 30 days.",
        ...(publicBaseUrl && {
          responseHeaders: {
            Link: 'The URL of the next page, as `<…>; rel="next"`. Absent on the last page.',
          },
        }),
        errors: [queryError(`state: ${mustBeOneOf(DELIVERY_STATES)}`), READ_ERROR],
      },
      schemas: { query: deliveryQuery, response: deliveryListSchema },
      examples: { response: { deliveries: [example], has_more: false } },
    },
    async ({ id }, { ctx, query: { state, limit, starting_after } }) => {
      // Many deliveries may have to be read to find those in a state.
      const { deliveries, hasMore } = await readDeliveries(state === undefined ? db : reads, id, {
        state: state ?? null,
        startingAfter: starting_after ?? null,
        limit,
      });
      const presented = deliveries.map(presentDelivery);
      const last = presented.at(-1);
      if (hasMore && last && publicBaseUrl) {
        setNextLink(ctx, publicBaseUrl(), { starting_after: last.id });
      }
      return { deliveries: presented, has_more: hasMore };
    },
  );
};

const retryEndpoint = (context: WebhookHttpContext, on: WebhookInterface): Endpoint =>
  createDefine(context, on)(
    ["post", "/deliveries/:delivery_id/retry"],
    {
      description: {
        operationId: "retryWebhookDelivery",
        summary: "Retry a delivery",
        details:
          "Sends the event again within seconds, even if it was already delivered. If that fails, the schedule of retries begins again.",
        pathParameters: { delivery_id: "The id of the delivery, which is the event's." },
        errors: [DISABLED_ERROR],
      },
      schemas: { response: deliverySchema },
      examples: {
        response: { ...EXAMPLE, type: TYPES_EXAMPLE[on.accountType][0], attempt_count: 0 },
      },
    },
    async (endpoint, { ctx }) =>
      presentDelivery(
        await retryWebhookDelivery(
          { ...context, actor: null },
          endpoint,
          pathParameter(ctx, "delivery_id"),
        ),
      ),
  );

const recoveryEndpoint = (context: WebhookHttpContext, on: WebhookInterface): Endpoint =>
  createDefine(context, on)(
    ["post", "/recover"],
    {
      description: {
        operationId: "recoverWebhookEvents",
        summary: "Recover missed events",
        details:
          `Sends the events since a time of the last ${RECOVERY_DAYS} days that the endpoint wants and has not received: those that ` +
          "were recorded while it was disabled or did not exist, and those whose delivery failed or waits for its next attempt.",
        errors: [SINCE_ERROR],
      },
      schemas: { body: recoverBody, response: recoverySchema },
      examples: {
        body: { since: "2025-06-01T12:00:00Z" },
        response: { recovered_count: 12, has_more: false },
      },
    },
    async (endpoint, { body: { since } }) => {
      const { recovered, hasMore } = await recoverWebhookEvents(
        { ...context, actor: null },
        endpoint,
        new Date(since),
      );
      return { recovered_count: recovered, has_more: hasMore };
    },
  );

/** The endpoints of what was sent, and of sending it again. */
export const deliveryEndpoints = (
  context: WebhookHttpContext,
  on: WebhookInterface,
): readonly Endpoint[] =>
  [listEndpoint, retryEndpoint, recoveryEndpoint].map((define) => define(context, on));
