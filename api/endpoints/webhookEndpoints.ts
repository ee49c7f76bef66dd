import type { z } from "zod";
import { SHORT_TEXT_LENGTH } from "../../modules/records/fields.rules.ts";
import { listEndpoints } from "../../modules/events/endpoints.sql.ts";
import type { WebhookEndpoint } from "../../modules/events/endpoints.sql.ts";
import {
  ALL_TYPES,
  MAXIMUM_ENDPOINTS,
  OLD_SECRET_HOURS,
  RECOVERY_DAYS,
} from "../../modules/events/webhooks.rules.ts";
import {
  createWebhookEndpoint,
  deleteWebhookEndpoint,
  getWebhookEndpoint,
  pingWebhookEndpoint,
  rotateWebhookSecret,
  updateWebhookEndpoint,
} from "../../modules/events/manageWebhookEndpoints.ts";
import { listDeliveries } from "../../modules/events/deliveries.sql.ts";
import { recoverWebhookEvents } from "../../modules/events/recoverWebhookEvents.ts";
import {
  presentDelivery,
  presentEndpoint,
  storedTypes,
} from "../../modules/events/presentWebhooks.ts";
import type { AccountType } from "../../modules/records/owner.rules.ts";
import type { AppContext } from "../context.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { Definition, Endpoint } from "../http/endpoint.ts";
import {
  findWrongKey,
  markReplay,
  readIdempotencyKey,
  REPLAY_HEADER,
} from "../http/idempotencyKey.ts";
import { pathParameter } from "../http/requestContext.ts";
import * as schemas from "./webhookSchemas.ts";

/** The HTTP interface that webhook endpoints are managed on. */
type WebhookInterface = {
  /** Of the accounts whose events are sent. */
  readonly accountType: AccountType;
  readonly prefix: string;
};

const TAG = "webhooks";

/** A request about one webhook endpoint of the caller, which the path names. */
type Operation<
  Query extends z.ZodType,
  Body extends z.ZodType,
  ResponseBody extends z.ZodType,
> = Omit<Definition<Query, Body, ResponseBody, unknown>, "tag" | "handle"> & {
  readonly handle: (
    endpoint: WebhookEndpoint,
    request: Parameters<Definition<Query, Body, ResponseBody, unknown>["handle"]>[0],
  ) => Promise<z.output<ResponseBody>>;
};

const createDefine =
  ({ db }: AppContext, { accountType, prefix }: WebhookInterface) =>
  <
    ResponseBody extends z.ZodType,
    Body extends z.ZodType = z.ZodType,
    Query extends z.ZodType = z.ZodType,
  >(
    method: Endpoint["method"],
    path: string,
    { handle, errors = [], ...definition }: Operation<Query, Body, ResponseBody>,
  ): Endpoint =>
    keyEndpoint<Body, ResponseBody, Query>(method, `${prefix}/webhook_endpoints/:id${path}`, {
      ...definition,
      tag: TAG,
      pathParameters: { id: "The id of the endpoint." },
      errors: [
        ["record_not_found", `The ${accountType} has no such endpoint or event in the key's mode.`],
        ...errors,
      ],
      handle: async (request) => {
        const id = pathParameter(request.ctx, "id");
        return handle(await getWebhookEndpoint(db, id, request.owner), request);
      },
    });

const allEndpoints = (
  context: AppContext,
  { accountType, prefix }: WebhookInterface,
): readonly Endpoint[] => [
  keyEndpoint("post", `${prefix}/webhook_endpoints`, {
    checkBody: (body) => findWrongKey(body, "the header Idempotency-Key"),
    operationId: "createWebhookEndpoint",
    tag: TAG,
    summary: "Create a webhook endpoint",
    callback: schemas.messageCallback(accountType),
    details:
      `From now on, the events of the ${accountType} in the key's mode are sent to the URL as signed requests ` +
      `(Standard Webhooks). It can have ${MAXIMUM_ENDPOINTS} endpoints in each mode.`,
    idempotencyKey: `Any text of at most ${SHORT_TEXT_LENGTH} characters. A repeated request gets the same endpoint, as it is now, with its secret.`,
    responseHeaders: REPLAY_HEADER,
    errors: [
      [
        "request_invalid",
        "The body has a missing or malformed field; the message names it. Or the " +
          `${accountType} has ${MAXIMUM_ENDPOINTS} endpoints.`,
      ],
    ],
    schemas: { body: schemas.createBody(accountType), response: schemas.newEndpointSchema },
    example: {
      url: "https://shop.example/impact-events",
      types: [...schemas.TYPES_EXAMPLE[accountType]],
    },
    handle: async ({ ctx, owner, body }) => {
      const created = await createWebhookEndpoint({ ...context, actor: null }, owner, {
        url: body.url,
        types: storedTypes(body.types ?? [ALL_TYPES]),
        description: body.description ?? "",
        idempotencyKey: readIdempotencyKey(ctx),
      });
      markReplay(ctx, created);
      return { ...presentEndpoint(created.endpoint), secret: created.endpoint.secret };
    },
  }),
  keyEndpoint("get", `${prefix}/webhook_endpoints`, {
    operationId: "listWebhookEndpoints",
    tag: TAG,
    summary: "List webhook endpoints",
    schemas: { response: schemas.endpointListSchema },
    handle: async ({ owner }) => ({
      webhook_endpoints: (await listEndpoints(context.db, owner)).map(presentEndpoint),
    }),
  }),
];

const ownEndpoints = (context: AppContext, on: WebhookInterface): readonly Endpoint[] => {
  const define = createDefine(context, on);
  const change = { ...context, actor: null };
  return [
    define("get", "", {
      operationId: "readWebhookEndpoint",
      summary: "Read a webhook endpoint",
      schemas: { response: schemas.endpointSchema },
      handle: (endpoint) => Promise.resolve(presentEndpoint(endpoint)),
    }),
    define("post", "", {
      operationId: "updateWebhookEndpoint",
      summary: "Update, enable or disable a webhook endpoint",
      details:
        "Changes the fields that are given, and leaves the others. Pending deliveries go to the new URL.",
      schemas: { body: schemas.updateBody(on.accountType), response: schemas.endpointSchema },
      example: { types: [schemas.TYPES_EXAMPLE[on.accountType][0]] },
      handle: async (endpoint, { body }) => {
        const changes = { ...body, types: body.types && storedTypes(body.types) };
        return presentEndpoint(await updateWebhookEndpoint(change, endpoint, changes));
      },
    }),
    define("delete", "", {
      operationId: "deleteWebhookEndpoint",
      summary: "Delete an endpoint",
      details: "Its pending deliveries are not made any more, and its deliveries cannot be read.",
      schemas: { response: schemas.deletedEndpointSchema },
      handle: async (endpoint) => {
        await deleteWebhookEndpoint(change, endpoint);
        return { id: endpoint.id, deleted: true as const };
      },
    }),
    define("post", "/rotate", {
      operationId: "rotateWebhookSecret",
      summary: "Replace an endpoint's secret",
      details:
        `The previous secret also signs for ${OLD_SECRET_HOURS} hours, so a server with either secret can verify the requests. ` +
        "If it has leaked, replace the secret twice: one that was replaced before no longer signs.",
      schemas: { response: schemas.secretSchema },
      handle: async (endpoint) => {
        const { secret, previousValidUntil } = await rotateWebhookSecret(change, endpoint);
        return { id: endpoint.id, secret, previous_valid_until: previousValidUntil.toISOString() };
      },
    }),
  ];
};

const deliveryEndpoints = (context: AppContext, on: WebhookInterface): readonly Endpoint[] => {
  const define = createDefine(context, on);
  const change = { ...context, actor: null };
  return [
    define("post", "/ping", {
      operationId: "pingWebhookEndpoint",
      summary: "Send an endpoint a test event",
      details:
        "Sends an event of the type `ping`, whatever types the endpoint has chosen. The request arrives within seconds.",
      errors: ["request_invalid"],
      schemas: { response: schemas.pingSchema },
      handle: async (endpoint) => ({ id: await pingWebhookEndpoint(change, endpoint) }),
    }),
    define("get", "/deliveries", {
      operationId: "listWebhookDeliveries",
      summary: "List an endpoint's deliveries",
      details: "The newest first, each with its last attempt. They are kept for 30 days.",
      errors: ["query_timeout"],
      schemas: { query: schemas.deliveryQuery, response: schemas.deliveryListSchema },
      handle: async ({ id }, { query }) => ({
        deliveries: (await listDeliveries(context.reads, id, query)).map(presentDelivery),
      }),
    }),
    define("post", "/recover", {
      operationId: "recoverWebhookEvents",
      summary: "Recover missed events",
      details:
        `Sends the events since a time of the last ${RECOVERY_DAYS} days that the endpoint wants and has not received: those that ` +
        "were recorded while it was disabled or did not exist, and those whose delivery failed or waits for its next attempt. " +
        "With `event_id`, sends one event, even if it was already delivered. If that fails, the schedule of retries begins again.",
      schemas: { body: schemas.recoverBody, response: schemas.recoverySchema },
      example: { since: "2025-06-01T12:00:00Z" },
      handle: async (endpoint, { body: { event_id: eventId, since } }) => {
        const chosen = { eventId, since: since === undefined ? since : new Date(since) };
        const { recovered, hasMore } = await recoverWebhookEvents(change, endpoint, chosen);
        return { recovered_count: recovered, has_more: hasMore };
      },
    }),
  ];
};

/** The requests that manage where the events of an organization or a store are sent, and what was sent. */
export const webhookEndpoints = (context: AppContext, on: WebhookInterface): readonly Endpoint[] =>
  [allEndpoints, ownEndpoints, deliveryEndpoints].flatMap((endpointsOf) =>
    endpointsOf(context, on),
  );
