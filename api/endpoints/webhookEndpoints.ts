import { listEndpoints } from "../../modules/events/endpoints.sql.ts";
import { SHORT_TEXT_LENGTH } from "../../modules/records/fields.rules.ts";
import { MAXIMUM_ENDPOINTS, OLD_SECRET_HOURS } from "../../modules/events/webhooks.rules.ts";
import {
  createWebhookEndpoint,
  deleteWebhookEndpoint,
  pingWebhookEndpoint,
  rotateWebhookSecret,
  updateWebhookEndpoint,
} from "../../modules/events/manageWebhookEndpoints.ts";
import { ALL_TYPES, presentEndpoint, storedTypes } from "../../modules/events/presentWebhooks.ts";
import { accountModeOf } from "../../modules/records/owner.rules.ts";
import type { AccountType } from "../../modules/records/owner.rules.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { Endpoint } from "../http/endpoint.ts";
import {
  findWrongKey,
  readIdempotencyKey,
  markReplay,
  REPLAY_HEADER,
} from "../http/idempotencyKey.ts";
import { createDefine, DISABLED_ERROR, TAG } from "./webhookInterface.ts";
import type { WebhookHttpContext, WebhookInterface } from "./webhookInterface.ts";
import {
  createBody,
  deletedEndpointSchema,
  endpointExample,
  endpointListSchema,
  endpointSchema,
  EVENT_ID,
  messageCallback,
  newEndpointSchema,
  pingSchema,
  rotateBody,
  SECRET_EXAMPLE,
  secretSchema,
  TYPES_EXAMPLE,
  typesMustBe,
  updateBody,
} from "./webhookSchemas.ts";

const invalidError = (accountType: AccountType) =>
  ({
    code: "request_invalid",
    when: "The body has a missing or malformed field; the message names it.",
    example: `types: ${typesMustBe(accountType)}`,
  }) as const;

const creationEndpoint = (
  context: WebhookHttpContext,
  { accountType, prefix, keyError }: WebhookInterface,
): Endpoint => {
  const example = endpointExample(accountType);
  const { when, ...invalid } = invalidError(accountType);
  return keyEndpoint({
    method: "post",
    path: `${prefix}/webhook_endpoints`,
    checkBody: (body) => findWrongKey(body, "the header Idempotency-Key"),
    description: {
      operationId: "createWebhookEndpoint",
      tag: TAG,
      summary: "Create a webhook endpoint",
      callback: messageCallback(accountType),
      details:
        `From now on, the events of the ${accountType} in the key's mode are sent to the URL as signed requests ` +
        `(Standard Webhooks). It can have ${MAXIMUM_ENDPOINTS} endpoints in each mode, with different URLs, so a repeated request does not add another.`,
      requestHeaders: {
        "Idempotency-Key": {
          description: `Any text of at most ${SHORT_TEXT_LENGTH} characters. A repeated request gets the same endpoint, as it is now, with its secret.`,
          maxLength: SHORT_TEXT_LENGTH,
        },
      },
      responseHeaders: REPLAY_HEADER,
      errors: [
        {
          ...invalid,
          when: `${when} Or the ${accountType} has an endpoint with this URL, or ${MAXIMUM_ENDPOINTS} endpoints.`,
        },
        keyError,
      ],
    },
    schemas: { body: createBody(accountType), response: newEndpointSchema },
    examples: {
      body: { url: example.url, types: [...TYPES_EXAMPLE[accountType]], description: "checkout" },
      response: { ...example, secret: SECRET_EXAMPLE },
    },
    handle: async ({ ctx, caller, body: { url, types = [ALL_TYPES], description = "" } }) => {
      const created = await createWebhookEndpoint(
        { ...context, actor: null },
        accountModeOf(caller),
        {
          url,
          types: storedTypes(types),
          description,
          idempotencyKey: readIdempotencyKey(ctx),
        },
      );
      markReplay(ctx, created);
      const { endpoint } = created;
      return { ...presentEndpoint(endpoint), secret: endpoint.secret };
    },
  });
};

const listEndpoint = (
  { db }: WebhookHttpContext,
  { accountType, prefix, keyError }: WebhookInterface,
): Endpoint =>
  keyEndpoint({
    method: "get",
    path: `${prefix}/webhook_endpoints`,
    description: {
      operationId: "listWebhookEndpoints",
      tag: TAG,
      summary: "List webhook endpoints",
      errors: [keyError],
    },
    schemas: { response: endpointListSchema },
    examples: { response: { webhook_endpoints: [endpointExample(accountType)] } },
    handle: async ({ caller }) => ({
      webhook_endpoints: (await listEndpoints(db, accountModeOf(caller))).map(presentEndpoint),
    }),
  });

const ownEndpoints = (context: WebhookHttpContext, on: WebhookInterface): readonly Endpoint[] => {
  const define = createDefine(context, on);
  const change = { ...context, actor: null };
  const example = endpointExample(on.accountType);
  const invalid = invalidError(on.accountType);
  return [
    define(
      ["get", ""],
      {
        description: {
          operationId: "readWebhookEndpoint",
          summary: "Read a webhook endpoint",
          errors: [],
        },
        schemas: { response: endpointSchema },
        examples: { response: example },
      },
      (endpoint) => Promise.resolve(presentEndpoint(endpoint)),
    ),
    define(
      ["post", ""],
      {
        description: {
          operationId: "updateWebhookEndpoint",
          summary: "Update, enable or disable a webhook endpoint",
          details:
            "Changes the fields that are given, and leaves the others. Pending deliveries go to the new URL.",
          errors: [invalid],
        },
        schemas: { body: updateBody(on.accountType), response: endpointSchema },
        examples: { body: { types: [TYPES_EXAMPLE[on.accountType][0]] }, response: example },
      },
      async (endpoint, { body: { types, ...changes } }) =>
        presentEndpoint(
          await updateWebhookEndpoint(change, endpoint, {
            ...changes,
            types: types && storedTypes(types),
          }),
        ),
    ),
    define(
      ["delete", ""],
      {
        description: {
          operationId: "deleteWebhookEndpoint",
          summary: "Delete an endpoint",
          details:
            "Its pending deliveries are not made any more, and its deliveries cannot be read.",
          errors: [],
        },
        schemas: { response: deletedEndpointSchema },
        examples: { response: { id: example.id, deleted: true } },
      },
      async (endpoint) => {
        await deleteWebhookEndpoint(change, endpoint);
        return { id: endpoint.id, deleted: true as const };
      },
    ),
  ];
};

const secretEndpoints = (
  context: WebhookHttpContext,
  on: WebhookInterface,
): readonly Endpoint[] => {
  const define = createDefine(context, on);
  const change = { ...context, actor: null };
  const { id } = endpointExample(on.accountType);
  return [
    define(
      ["post", "/rotate"],
      {
        description: {
          operationId: "rotateWebhookSecret",
          summary: "Replace an endpoint's secret",
          details: `The previous secret also signs for ${OLD_SECRET_HOURS} hours, so a server with either secret can verify the requests.`,
          errors: [invalidError(on.accountType)],
        },
        schemas: { body: rotateBody, response: secretSchema },
        examples: {
          body: { revoke_previous: false },
          response: {
            id,
            secret: SECRET_EXAMPLE,
            previous_valid_until: "2025-06-02T12:00:00.000Z",
          },
        },
      },
      async (endpoint, { body: { revoke_previous: revokesPrevious = false } }) => {
        const rotated = await rotateWebhookSecret(change, endpoint, { revokesPrevious });
        return {
          id: endpoint.id,
          secret: rotated.secret,
          previous_valid_until: rotated.previousValidUntil?.toISOString() ?? null,
        };
      },
    ),
    define(
      ["post", "/ping"],
      {
        description: {
          operationId: "pingWebhookEndpoint",
          summary: "Send an endpoint a test event",
          details:
            "Sends an event of the type `ping`, whatever types the endpoint has chosen. The request arrives within seconds.",
          errors: [DISABLED_ERROR],
        },
        schemas: { response: pingSchema },
        examples: { response: { id: EVENT_ID } },
      },
      async (endpoint) => ({ id: await pingWebhookEndpoint(change, endpoint) }),
    ),
  ];
};

/** The endpoints that manage where the events of an organization or a store are sent. */
export const webhookEndpoints = (
  context: WebhookHttpContext,
  on: WebhookInterface,
): readonly Endpoint[] => [
  creationEndpoint(context, on),
  listEndpoint(context, on),
  ...ownEndpoints(context, on),
  ...secretEndpoints(context, on),
];
