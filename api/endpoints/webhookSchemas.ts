import { z } from "zod";
import { text } from "../../modules/records/fields.rules.ts";
import { mustBe, oneOf } from "../../runtime/describeIssues.rules.ts";
import type { AccountType } from "../../modules/records/owner.rules.ts";
import { DELIVERY_STATES, lastAttempt } from "../../modules/events/decideDelivery.rules.ts";
import { DISABLED_REASONS } from "../../modules/events/events.rules.ts";
import {
  ALL_TYPES,
  MAXIMUM_URL_LENGTH,
  PING,
  PING_DATA,
  RECOVERY_DAYS,
  WEBHOOK_TYPES_OF,
  webhookDataSchema,
} from "../../modules/events/webhooks.rules.ts";
import type { WebhookType } from "../../modules/events/webhooks.rules.ts";
import type { Callback } from "../http/endpoint.ts";
import { defaultedLimit } from "../http/listPages.ts";
import { bodyObject, responseObject, optional, wholeNumber } from "../http/parseRequest.ts";

/** What each type of event says, in the feed and in webhooks. */
export const EVENT_MEANINGS = {
  "registration.created": "Trees or bottles were registered. `data` is as registered.",
  "registration.refunded":
    "`count` units of a registration were refunded, and `remaining_count` are left.",
  "donation.created": "A donation was recorded.",
  "donation.refunded": "A donation was refunded.",
  "usage.failed":
    "The payment processor refused the usage of the registrations of one second, or it is unknown whether it has it. " +
    "`count` is negative for refunds. It is not billed until the operator acts.",
  "usage.recovered":
    "Usage that had failed is reported again, or the processor turned out to have it.",
  "evidence.milestone_reached":
    "A planting order has reached a milestone, and so have its trees. Their evidence names the order as `order_id`.",
  "webhook_endpoint.disabled":
    "A webhook endpoint was disabled, and receives nothing until it is enabled. Other endpoints of the account receive this event.",
  "balance.low": "The balance has passed below the store's low-balance threshold.",
  "balance.depleted":
    "A write was rejected, because the balance does not cover it. Further ones are not reported until the balance has risen.",
} as const satisfies Record<"registration.created" | WebhookType, string>;

/** Returns the name of a type in the API description: `RegistrationCreated` for `registration.created`. */
export const schemaNameOf = (type: string): string =>
  type.replaceAll(/(?:^|[._])(\w)/gu, (_, letter: string) => letter.toUpperCase());

/** Types that a client may choose, for examples. */
export const TYPES_EXAMPLE = {
  organization: ["donation.refunded", "registration.refunded"],
  store: ["balance.low", "balance.depleted"],
} as const satisfies {
  readonly [Type in AccountType]: readonly (typeof WEBHOOK_TYPES_OF)[Type][number][];
};

/** The fields of an endpoint that its owner chooses. */
const settings = (accountType: AccountType) => {
  const error = `must be a list of ${WEBHOOK_TYPES_OF[accountType].join(", ")}, or ["${ALL_TYPES}"] for all`;
  return {
    url: z
      .string({ error: mustBe("a URL") })
      .max(MAXIMUM_URL_LENGTH, `must be at most ${MAXIMUM_URL_LENGTH} characters`)
      .meta({
        description:
          "Where events are sent by POST: an `https://` URL of a host with a public address, without user name, password and fragment.",
        examples: ["https://shop.example/impact-events"],
      }),
    types: z
      .array(
        z.enum([ALL_TYPES, ...WEBHOOK_TYPES_OF[accountType]], {
          error: `must be one of ${WEBHOOK_TYPES_OF[accountType].join(", ")}, or "${ALL_TYPES}" for all`,
        }),
        { error },
      )
      .min(1, error)
      .max(20, error)
      .meta({
        description:
          'The types of events to receive. `["*"]` stands for all, also those of later releases. A `ping` is always received.',
        examples: [TYPES_EXAMPLE[accountType]],
      })
      .optional(),
    description: text(200)
      .meta({ description: "Your own note.", examples: ["checkout"] })
      .optional(),
  };
};

export const createBody = (accountType: AccountType) =>
  bodyObject(settings(accountType)).meta({ id: "NewWebhookEndpoint" });

export const updateBody = (accountType: AccountType) => {
  const { url, ...others } = settings(accountType);
  return bodyObject({
    url: url.optional(),
    ...others,
    status: optional(
      oneOf(["enabled", "disabled"]),
      "`disabled`: nothing is recorded for it, and what is pending waits. `enabled`: pending and new events are sent; those that it has missed can be recovered.",
      "enabled",
    ),
  }).meta({ id: "WebhookEndpointUpdate" });
};

const EVENT_ID = "evt_00000000000003f20198c5e17a107c33b4c25e6f7a8b9c0d";

const SINCE_MUST_BE = `a time of the last ${RECOVERY_DAYS} days, such as 2025-06-01T12:00:00Z`;

export const recoverBody = bodyObject({
  since: optional(
    z.iso.datetime({ offset: true, error: mustBe(SINCE_MUST_BE) }),
    "Events from this time on.",
    "2025-06-01T12:00:00Z",
  ),
  event_id: optional(z.string(), "The id of one event, instead of a time.", EVENT_ID),
})
  .refine(({ since, event_id: eventId }) => since !== undefined || eventId !== undefined, {
    path: ["since"],
    error: "required",
  })
  .meta({ id: "NewWebhookRecovery" });

export const deliveryQuery = z.object({
  state: optional(
    oneOf(DELIVERY_STATES),
    "Only deliveries in this state. `failed` also finds pending deliveries whose last attempt failed.",
    "failed",
  ),
  limit: defaultedLimit("deliveries"),
});

const time = () => z.iso.datetime();

const secret = z.string().meta({
  description:
    "The secret that verifies signatures, as the libraries of Standard Webhooks take it. No other response shows it.",
  examples: ["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDGDBvZsTuNW4="],
});

export const endpointSchema = responseObject("WebhookEndpoint", {
  id: z.string().meta({ examples: ["0198c5e9-1d55-7f6e-9a0b-5d3c2b1a0f9e"] }),
  url: z.string(),
  types: z.array(z.string()),
  description: z.string(),
  status: z.enum(["enabled", "disabled"]),
  disabled_reason: z
    .enum(DISABLED_REASONS)
    .nullable()
    .describe(
      "`requested`: by you or the operator. `gone`: the server responded with 410. `failing`: every attempt of five days failed. " +
        "Null if the endpoint is enabled.",
    ),
  disabled_at: time().nullable(),
  failing_since: time()
    .nullable()
    .describe(
      "The first failed attempt since the last one that succeeded, since the URL was changed or since the endpoint was " +
        "enabled, whichever was last. Null if none failed since.",
    ),
  last_error: z
    .string()
    .nullable()
    .describe("How the last attempt has failed. Null if `failing_since` is."),
  created_at: time(),
});

export const newEndpointSchema = endpointSchema
  .extend({ secret })
  .meta({ id: "CreatedWebhookEndpoint" });

export const endpointListSchema = responseObject("WebhookEndpointList", {
  webhook_endpoints: z.array(endpointSchema),
});

export const deletedEndpointSchema = responseObject("DeletedWebhookEndpoint", {
  id: z.string(),
  deleted: z.literal(true),
});

export const secretSchema = responseObject("WebhookSecret", {
  id: z.string().describe("The id of the endpoint."),
  secret,
  previous_valid_until: time().describe(
    "Until when the previous secret signs as well. One before it no longer signs.",
  ),
});

export const pingSchema = responseObject("WebhookPing", {
  id: z
    .string()
    .describe("The id of the delivery, which the receiver gets in the header `webhook-id`."),
});

export const recoverySchema = responseObject("WebhookRecovery", {
  recovered_count: wholeNumber(),
  has_more: z
    .boolean()
    .describe("Whether more events can be recovered; repeat the request with the same time."),
});

const deliverySchema = responseObject("WebhookDelivery", {
  id: z.string().meta({
    description: "The id of the event, the same as in an organization's feed.",
    examples: [EVENT_ID],
  }),
  // Not an enumeration, because a newer release of the service may have recorded it.
  type: z.string().meta({
    description: `A type of events that an endpoint can choose, or \`${PING}\`.`,
    examples: ["registration.refunded"],
  }),
  timestamp: time().describe("When it happened."),
  state: z
    .enum(DELIVERY_STATES)
    .describe(
      "`pending`: another attempt follows, unless the endpoint is disabled. `delivered`: the server has accepted it. `failed`: no attempt follows.",
    ),
  attempt_count: wholeNumber().describe(
    "Since the event, or since it was last retried or recovered.",
  ),
  last_attempt: lastAttempt.meta({ id: "WebhookAttempt" }).nullable(),
  created_at: time(),
  next_attempt_at: time().nullable(),
});

export const deliveryListSchema = responseObject("WebhookDeliveryList", {
  deliveries: z.array(deliverySchema),
});

const messageOf = (type: string, data: z.ZodObject, meaning: string) => {
  const title = `${schemaNameOf(type)}Message`;
  const sequence = z
    .int()
    .describe(
      "Events with a higher number happened later. Deliveries may arrive in another order, and two events of one transaction have the same number.",
    );
  return z
    .strictObject({
      type: z.literal(type),
      timestamp: time(),
      data: data.extend({ sequence }).meta({ id: `${title}Data` }),
    })
    .meta({ id: title, description: meaning });
};

/** What the API description says about the requests to endpoints. */
export const messageCallback = (accountType: AccountType): Callback => ({
  operationId: "receiveEvent",
  urlField: "url",
  summary: "An event, sent to a webhook endpoint",
  description:
    "A request to the URL of an endpoint, signed according to Standard Webhooks 1.0.0. Respond with a status from 200 to 299 " +
    "within 15 seconds; any other outcome is retried for three days. The same event may arrive more than once, with " +
    "the same `webhook-id`, and events may arrive in any order.",
  headers: {
    "webhook-id":
      "The id of the event, the same at every attempt. The feed of an organization has it, too.",
    "webhook-timestamp": "The time of this attempt, in seconds of the Unix epoch.",
    "webhook-signature":
      "Signatures with spaces between them, one for each secret that is valid: `v1,` and the Base64 of the HMAC-SHA256 of " +
      "`{webhook-id}.{webhook-timestamp}.{body}`.",
  },
  schema: z
    .discriminatedUnion("type", [
      messageOf(PING, PING_DATA, "You or the operator tested the endpoint."),
      ...WEBHOOK_TYPES_OF[accountType].map((each) =>
        messageOf(each, webhookDataSchema(each), EVENT_MEANINGS[each]),
      ),
    ])
    .meta({ id: "WebhookMessage" }),
});
