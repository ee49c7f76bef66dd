import { z } from "zod";
import { text } from "../../modules/records/fields.rules.ts";
import { mustBe, oneOf } from "../../runtime/describeIssues.rules.ts";
import type { AccountType } from "../../modules/records/owner.rules.ts";
import { DISABLED_REASONS } from "../../modules/events/events.rules.ts";
import {
  MAXIMUM_URL_LENGTH,
  PING,
  PING_DATA,
  WEBHOOK_TYPES_OF,
  webhookDataSchema,
} from "../../modules/events/webhooks.rules.ts";
import type { WebhookType } from "../../modules/events/webhooks.rules.ts";
import { ALL_TYPES } from "../../modules/events/presentWebhooks.ts";
import type { Callback } from "../http/endpoint.ts";
import { bodyObject } from "../http/parseRequest.ts";

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

export const typesMustBe = (accountType: AccountType): string =>
  `must be a list of ${WEBHOOK_TYPES_OF[accountType].join(", ")}, or ["${ALL_TYPES}"] for all`;

/** Types that a client may choose, for examples. */
export const TYPES_EXAMPLE = {
  organization: ["donation.refunded", "registration.refunded"],
  store: ["balance.low", "balance.depleted"],
} as const satisfies {
  readonly [Type in AccountType]: readonly (typeof WEBHOOK_TYPES_OF)[Type][number][];
};

const types = (accountType: AccountType) => {
  const error = typesMustBe(accountType);
  return z
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
    });
};

const url = () =>
  z
    .string({ error: mustBe("a URL") })
    .max(MAXIMUM_URL_LENGTH, `must be at most ${MAXIMUM_URL_LENGTH} characters`)
    .meta({
      description:
        "Where events are sent by POST: an `https://` URL of a host with a public address, without user name, password and fragment.",
      examples: ["https://shop.example/impact-events"],
    });

const description = () => text(200).meta({ description: "Your own note.", examples: ["checkout"] });

export const createBody = (accountType: AccountType) =>
  bodyObject({
    url: url(),
    types: types(accountType).optional(),
    description: description().optional(),
  }).meta({ id: "NewWebhookEndpoint" });

export const updateBody = (accountType: AccountType) =>
  bodyObject({
    url: url().optional(),
    types: types(accountType).optional(),
    description: description().optional(),
    status: oneOf(["enabled", "disabled"])
      .optional()
      .meta({
        description:
          "`disabled`: nothing is recorded for it, and what is pending waits. `enabled`: pending and new events are sent; those that it has missed can be recovered.",
        examples: ["enabled"],
      }),
  }).meta({ id: "WebhookEndpointUpdate" });

export const rotateBody = bodyObject({
  revoke_previous: z
    .boolean({ error: "must be true or false" })
    .optional()
    .meta({
      description:
        "True to revoke the previous secret immediately, for example because it has leaked. The default is false.",
      examples: [false],
    }),
}).meta({ id: "NewWebhookSecret" });

/** Of an event, for examples. */
export const EVENT_ID = "evt_00000000000003f20198c5e17a107c33b4c25e6f7a8b9c0d";

const ID = "0198c5e9-1d55-7f6e-9a0b-5d3c2b1a0f9e";

const endpointFields = {
  id: z.string().meta({ examples: [ID] }),
  url: z.string(),
  types: z.array(z.string()),
  description: z.string(),
  status: z.enum(["enabled", "disabled"]),
  disabled_reason: z
    .enum(DISABLED_REASONS)
    .nullable()
    .meta({
      description:
        "`requested`: by you or the operator. `gone`: the server responded with 410. `failing`: every attempt of five days failed. " +
        "Null if the endpoint is enabled.",
    }),
  disabled_at: z.iso.datetime().nullable(),
  failing_since: z.iso
    .datetime()
    .nullable()
    .meta({
      description:
        "The first failed attempt since the last one that succeeded, since the URL was changed or since the endpoint was " +
        "enabled, whichever was last. Null if none failed since.",
    }),
  last_error: z
    .string()
    .nullable()
    .meta({ description: "How the last attempt has failed. Null if `failing_since` is." }),
  created_at: z.iso.datetime(),
};

export const endpointSchema = z.strictObject(endpointFields).meta({ id: "WebhookEndpoint" });

const SECRET_DESCRIPTION =
  "The secret that verifies signatures, as the libraries of Standard Webhooks take it. No other response shows it.";

export const newEndpointSchema = z
  .strictObject({
    ...endpointFields,
    secret: z.string().meta({ description: SECRET_DESCRIPTION }),
  })
  .meta({ id: "CreatedWebhookEndpoint" });

export const endpointListSchema = z
  .strictObject({ webhook_endpoints: z.array(endpointSchema) })
  .meta({ id: "WebhookEndpointList" });

export const deletedEndpointSchema = z
  .strictObject({ id: z.string(), deleted: z.literal(true) })
  .meta({ id: "DeletedWebhookEndpoint" });

export const secretSchema = z
  .strictObject({
    id: z.string().meta({ description: "The id of the endpoint." }),
    secret: z.string().meta({ description: SECRET_DESCRIPTION }),
    previous_valid_until: z.iso.datetime().nullable().meta({
      description:
        "Until when the previous secret signs as well. Null if it was revoked. One before it no longer signs.",
    }),
  })
  .meta({ id: "WebhookSecret" });

export const pingSchema = z
  .strictObject({
    id: z.string().meta({
      description: "The id of the delivery, which the receiver gets in the header `webhook-id`.",
    }),
  })
  .meta({ id: "WebhookPing" });

const sequence = z.int().meta({
  description:
    "Events with a higher number happened later. Deliveries may arrive in another order, and two events of one transaction have the same number.",
});

const messageOf = (type: string, data: z.ZodObject, meaning: string) => {
  const title = `${schemaNameOf(type)}Message`;
  return z
    .strictObject({
      type: z.literal(type),
      timestamp: z.iso.datetime(),
      data: data.extend({ sequence }).meta({ id: `${title}Data` }),
    })
    .meta({ id: title, description: meaning });
};

/** The body of every request to an endpoint. */
const messageSchema = (accountType: AccountType) =>
  z
    .discriminatedUnion("type", [
      messageOf(PING, PING_DATA, "You or the operator tested the endpoint."),
      ...WEBHOOK_TYPES_OF[accountType].map((type) =>
        messageOf(type, webhookDataSchema(type), EVENT_MEANINGS[type]),
      ),
    ])
    .meta({ id: "WebhookMessage" });

export const endpointExample = (accountType: AccountType): z.output<typeof endpointSchema> => ({
  id: ID,
  url: "https://shop.example/impact-events",
  types: [...TYPES_EXAMPLE[accountType]],
  description: "checkout",
  status: "enabled",
  disabled_reason: null,
  disabled_at: null,
  failing_since: null,
  last_error: null,
  created_at: "2025-06-01T12:00:00.000Z",
});

export const SECRET_EXAMPLE = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDGDBvZsTuNW4=";

const EXAMPLES = {
  organization: {
    type: "registration.refunded",
    timestamp: "2025-06-01T12:03:24.000Z",
    data: {
      registration_id: "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11",
      kind: "tree",
      count: 1,
      remaining_count: 2,
      sequence: 1010,
    },
  },
  store: {
    type: "balance.low",
    timestamp: "2025-06-01T12:03:24.000Z",
    data: {
      shop_domain: "example.myshopify.com",
      balance_cents: 4850,
      currency: "USD",
      threshold_cents: 5000,
      sequence: 1010,
    },
  },
} as const satisfies Record<AccountType, object>;

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
  schema: messageSchema(accountType),
  example: EXAMPLES[accountType],
});
