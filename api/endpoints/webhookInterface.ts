import type { z } from "zod";
import type { WebhookEndpoint } from "../../modules/events/endpoints.sql.ts";
import {
  ENDPOINT_DISABLED,
  ENDPOINT_NOT_FOUND,
  getWebhookEndpoint,
} from "../../modules/events/manageWebhookEndpoints.ts";
import { accountModeOf } from "../../modules/records/owner.rules.ts";
import type { AccountType } from "../../modules/records/owner.rules.ts";
import type { HttpContext } from "../context.ts";
import { pathParameter } from "../http/requestContext.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { Endpoint, ErrorResponse, KeyDefinition } from "../http/endpoint.ts";

export const TAG = "webhooks";

/** The HTTP interface that webhook endpoints are managed on. */
export type WebhookInterface = {
  /** Of the accounts whose events are sent. */
  readonly accountType: AccountType;
  /** What its paths begin with. */
  readonly prefix: string;
  readonly keyError: ErrorResponse;
};

export type WebhookHttpContext = Pick<HttpContext, "db" | "clock" | "reads" | "webhookSettings"> & {
  /** The base URL of links; null if the interface has none. */
  readonly publicBaseUrl: (() => string) | null;
};

export const DISABLED_ERROR: ErrorResponse = {
  code: "request_invalid",
  when: "The endpoint is disabled.",
  example: ENDPOINT_DISABLED,
};

/** Returns what defines requests about one webhook endpoint of the caller, which the path names. */
export const createDefine = ({ db }: WebhookHttpContext, on: WebhookInterface) => {
  const notFoundError: ErrorResponse = {
    code: "record_not_found",
    when: `The ${on.accountType} has no such endpoint or delivery in the key's mode.`,
    example: ENDPOINT_NOT_FOUND,
  };
  /** @param handle gets the webhook endpoint, and the request */
  return <Body extends z.ZodType, ResponseBody extends z.ZodType, Query extends z.ZodType>(
    [method, path]: readonly [Endpoint["method"], string],
    {
      description: { pathParameters, errors, ...description },
      schemas,
      examples,
    }: Pick<KeyDefinition<Query, Body, ResponseBody, unknown>, "schemas" | "examples"> & {
      readonly description: Omit<Endpoint["description"], "tag">;
    },
    handle: (
      endpoint: WebhookEndpoint,
      request: Parameters<KeyDefinition<Query, Body, ResponseBody, unknown>["handle"]>[0],
    ) => Promise<z.output<ResponseBody>>,
  ): Endpoint =>
    keyEndpoint<Body, ResponseBody, Query>({
      method,
      path: `${on.prefix}/webhook_endpoints/:id${path}`,
      description: {
        ...description,
        tag: TAG,
        pathParameters: { id: "The id of the endpoint.", ...pathParameters },
        errors: [...errors, on.keyError, notFoundError],
      },
      schemas,
      examples,
      handle: async (request) => {
        const { ctx, caller } = request;
        const id = pathParameter(ctx, "id");
        return handle(await getWebhookEndpoint(db, id, accountModeOf(caller)), request);
      },
    });
};
