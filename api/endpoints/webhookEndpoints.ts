import type { z } from "zod";
import type { WebhookEndpoint } from "../../modules/events/endpoints.sql.ts";
import { listEndpoints } from "../../modules/events/endpoints.sql.ts";
import { SHORT_TEXT_LENGTH } from "../../modules/records/fields.rules.ts";
import { MAXIMUM_ENDPOINTS, OLD_SECRET_HOURS } from "../../modules/events/webhooks.rules.ts";
import {
  createWebhookEndpoint,
  ENDPOINT_NOT_FOUND,
  updateWebhookEndpoint,
  deleteWebhookEndpoint,
  switchWebhookEndpoint,
  pingWebhookEndpoint,
  rotateWebhookSecret,
} from "../../modules/events/manageWebhookEndpoints.ts";
import { accountModeOf } from "../../modules/records/owner.rules.ts";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import type { WebhookContext } from "../../modules/events/context.ts";
import type { RequestContext } from "../http/requestContext.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { Endpoint } from "../http/endpoint.ts";
import {
  findWrongKey,
  readIdempotencyKey,
  markReplay,
  REPLAY_HEADER,
} from "../http/idempotencyKey.ts";
import {
  getRequestedEndpoint,
  ALL_TYPES,
  createBody,
  deletedEndpointSchema,
  DISABLED_ERROR,
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
import type { WebhookInterface } from "./webhookSchemas.ts";

const TAG = "webhooks";

const ID_PARAMETER = { id: "The id of the endpoint." };

const presentEndpoint = (endpoint: WebhookEndpoint): z.output<typeof endpointSchema> => ({
  id: endpoint.id,
  url: endpoint.url,
  types: endpoint.types ?? [ALL_TYPES],
  description: endpoint.description,
  status: endpoint.disabledAt === null ? "enabled" : "disabled",
  disabled_reason: endpoint.disabledReason,
  disabled_at: endpoint.disabledAt?.toISOString() ?? null,
  failing_since: endpoint.failingSince?.toISOString() ?? null,
  created_at: endpoint.createdAt.toISOString(),
});

/** Returns the types as they are stored: each once, and null for all. */
const storedTypes = (given: readonly string[]): string[] | null =>
  given.includes(ALL_TYPES) ? null : [...new Set(given)];

/** Returns what the endpoints of an interface have in common. */
const createTools = (
  { db, clock, webhookSettings }: WebhookContext,
  { accountType }: WebhookInterface,
) => ({
  change: { db, clock, webhookSettings, actor: null },
  example: endpointExample(accountType),
  invalidError: {
    code: "request_invalid",
    when: "The body has a missing or malformed field; the message names it.",
    example: `types: ${typesMustBe(accountType)}`,
  } as const,
  notFoundError: {
    code: "record_not_found",
    when: `The ${accountType} has no such endpoint in the key's mode.`,
    example: ENDPOINT_NOT_FOUND,
  } as const,
  find: (ctx: RequestContext, caller: Caller): Promise<WebhookEndpoint> =>
    getRequestedEndpoint(db, ctx, caller),
});

type Tools = ReturnType<typeof createTools>;

const creationEndpoint = (
  { change, example, invalidError }: Tools,
  { accountType, prefix, keyError }: WebhookInterface,
): Endpoint =>
  keyEndpoint({
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
          ...invalidError,
          when: `${invalidError.when} Or the ${accountType} has an endpoint with this URL, or ${MAXIMUM_ENDPOINTS} endpoints.`,
        },
        keyError,
      ],
    },
    schemas: { body: createBody(accountType), response: newEndpointSchema },
    examples: {
      body: {
        url: example.url,
        types: [...TYPES_EXAMPLE[accountType]],
        description: "checkout",
      },
      response: { ...example, secret: SECRET_EXAMPLE },
    },
    handle: async ({ ctx, caller, body: { url, types = [ALL_TYPES], description = "" } }) => {
      const created = await createWebhookEndpoint(change, accountModeOf(caller), {
        url,
        types: storedTypes(types),
        description,
        idempotencyKey: readIdempotencyKey(ctx),
      });
      markReplay(ctx, created);
      return { ...presentEndpoint(created.endpoint), secret: created.secret };
    },
  });

const listEndpoint = (
  { change, example }: Tools,
  { prefix, keyError }: WebhookInterface,
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
    examples: { response: { webhook_endpoints: [example] } },
    handle: async ({ caller }) => ({
      webhook_endpoints: (await listEndpoints(change.db, accountModeOf(caller))).map(
        presentEndpoint,
      ),
    }),
  });

const readEndpoint = (
  { example, notFoundError, find }: Tools,
  { prefix, keyError }: WebhookInterface,
): Endpoint =>
  keyEndpoint({
    method: "get",
    path: `${prefix}/webhook_endpoints/:id`,
    description: {
      operationId: "readWebhookEndpoint",
      tag: TAG,
      summary: "Read a webhook endpoint",
      pathParameters: ID_PARAMETER,
      errors: [keyError, notFoundError],
    },
    schemas: { response: endpointSchema },
    examples: { response: example },
    handle: async ({ ctx, caller }) => presentEndpoint(await find(ctx, caller)),
  });

const updateEndpoint = (
  { change, example, invalidError, notFoundError, find }: Tools,
  { accountType, prefix, keyError }: WebhookInterface,
): Endpoint =>
  keyEndpoint({
    method: "post",
    path: `${prefix}/webhook_endpoints/:id`,
    description: {
      operationId: "updateWebhookEndpoint",
      tag: TAG,
      summary: "Update a webhook endpoint",
      details:
        "Changes the fields that are given, and leaves the others. Pending deliveries go to the new URL.",
      pathParameters: ID_PARAMETER,
      errors: [invalidError, keyError, notFoundError],
    },
    schemas: { body: updateBody(accountType), response: endpointSchema },
    examples: { body: { types: [TYPES_EXAMPLE[accountType][0]] }, response: example },
    handle: async ({ ctx, caller, body: { url, types, description } }) =>
      presentEndpoint(
        await updateWebhookEndpoint(change, await find(ctx, caller), {
          url,
          types: types && storedTypes(types),
          description,
        }),
      ),
  });

const deletionEndpoint = (
  { change, example, notFoundError, find }: Tools,
  { prefix, keyError }: WebhookInterface,
): Endpoint =>
  keyEndpoint({
    method: "delete",
    path: `${prefix}/webhook_endpoints/:id`,
    description: {
      operationId: "deleteWebhookEndpoint",
      tag: TAG,
      summary: "Delete an endpoint",
      details: "Its pending deliveries are not made any more, and its deliveries cannot be read.",
      pathParameters: ID_PARAMETER,
      errors: [keyError, notFoundError],
    },
    schemas: { response: deletedEndpointSchema },
    examples: { response: { id: example.id, deleted: true } },
    handle: async ({ ctx, caller }) => {
      const endpoint = await find(ctx, caller);
      await deleteWebhookEndpoint(change, endpoint);
      return { id: endpoint.id, deleted: true as const };
    },
  });

const rotationEndpoint = (
  { change, example, invalidError, notFoundError, find }: Tools,
  { prefix, keyError }: WebhookInterface,
): Endpoint =>
  keyEndpoint({
    method: "post",
    path: `${prefix}/webhook_endpoints/:id/rotate`,
    description: {
      operationId: "rotateWebhookSecret",
      tag: TAG,
      summary: "Replace an endpoint's secret",
      details: `The previous secret also signs for ${OLD_SECRET_HOURS} hours, so a server with either secret can verify the requests.`,
      pathParameters: ID_PARAMETER,
      errors: [
        {
          ...invalidError,
          when: `${invalidError.when} Or too many of the endpoint's secrets are still valid.`,
        },
        keyError,
        notFoundError,
      ],
    },
    schemas: { body: rotateBody, response: secretSchema },
    examples: {
      body: { revoke_previous: false },
      response: {
        id: example.id,
        secret: SECRET_EXAMPLE,
        previous_valid_until: "2025-06-02T12:00:00.000Z",
      },
    },
    handle: async ({ ctx, caller, body: { revoke_previous: revokesPrevious = false } }) => {
      const endpoint = await find(ctx, caller);
      const rotated = await rotateWebhookSecret(change, endpoint, { revokesPrevious });
      return {
        id: endpoint.id,
        secret: rotated.secret,
        previous_valid_until: rotated.previousValidUntil?.toISOString() ?? null,
      };
    },
  });

const switchEndpoint =
  (action: "enable" | "disable") =>
  (
    { change, example, notFoundError, find }: Tools,
    { prefix, keyError }: WebhookInterface,
  ): Endpoint =>
    keyEndpoint({
      method: "post",
      path: `${prefix}/webhook_endpoints/:id/${action}`,
      description: {
        operationId: `${action}WebhookEndpoint`,
        tag: TAG,
        summary: action === "enable" ? "Enable an endpoint" : "Disable an endpoint",
        details:
          action === "enable"
            ? "Events from now on are sent. Those that it missed can be recovered."
            : "Ends its pending deliveries. No events are recorded for it until it is enabled.",
        pathParameters: ID_PARAMETER,
        errors: [keyError, notFoundError],
      },
      schemas: { response: endpointSchema },
      examples: { response: example },
      handle: async ({ ctx, caller }) =>
        presentEndpoint(
          await switchWebhookEndpoint(
            change,
            await find(ctx, caller),
            action === "enable" ? "enabled" : "disabled",
          ),
        ),
    });

const pingEndpoint = (
  { change, notFoundError, find }: Tools,
  { prefix, keyError }: WebhookInterface,
): Endpoint =>
  keyEndpoint({
    method: "post",
    path: `${prefix}/webhook_endpoints/:id/ping`,
    description: {
      operationId: "pingWebhookEndpoint",
      tag: TAG,
      summary: "Send an endpoint a test event",
      details:
        "Sends an event of the type `ping`, whatever types the endpoint has chosen. The request arrives within seconds.",
      pathParameters: ID_PARAMETER,
      errors: [DISABLED_ERROR, keyError, notFoundError],
    },
    schemas: { response: pingSchema },
    examples: { response: { id: EVENT_ID } },
    handle: async ({ ctx, caller }) => ({
      id: await pingWebhookEndpoint(change, await find(ctx, caller)),
    }),
  });

const ENDPOINTS = [
  creationEndpoint,
  listEndpoint,
  readEndpoint,
  updateEndpoint,
  deletionEndpoint,
  rotationEndpoint,
  switchEndpoint("enable"),
  switchEndpoint("disable"),
  pingEndpoint,
];

/** The endpoints that manage where the events of an organization or a store are sent. */
export const webhookEndpoints = (
  context: WebhookContext,
  on: WebhookInterface,
): readonly Endpoint[] => {
  const tools = createTools(context, on);
  return ENDPOINTS.map((define) => define(tools, on));
};
