import { hash } from "node:crypto";
import type { z } from "zod";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { SHORT_TEXT_LENGTH } from "../../modules/records/fields.rules.ts";
import { FEATURES } from "../../modules/stores/stores.rules.ts";
import type { StoreOperation } from "../../modules/stores/stores.rules.ts";
import type { StoreResponse, StoreWrite } from "../../modules/stores/storeWrites.rules.ts";
import type { Definition } from "../http/endpoint.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import { findWrongKey, readIdempotencyKey, markReplay } from "../http/idempotencyKey.ts";

/** Returns a hash of the parsed fields, whatever their order and however they were written. */
const hashRequest = (body: object): string => {
  const fields = Object.entries(body)
    .filter(([, value]) => value !== undefined)
    .toSorted(([one], [two]) => (one < two ? -1 : 1));
  return hash("sha256", JSON.stringify(fields), "hex");
};

type WriteDefinition<Body extends z.ZodType<object>, ResponseBody extends z.ZodType> = Omit<
  Definition<z.ZodType, Body, ResponseBody, unknown>,
  "handle" | "checkBody"
> & {
  /** Builds the body of the response on success; null if `write` does. */
  readonly responseBody: ((body: z.output<Body>, caller: Caller) => z.output<ResponseBody>) | null;
  readonly write: (
    write: StoreWrite,
    body: z.output<Body>,
    caller: Caller,
  ) => Promise<StoreResponse>;
};

/** Builds the endpoint of a write that runs once per `Idempotency-Key`; a repeat gets the first response. */
export const storeWriteEndpoint = <Body extends z.ZodType<object>, ResponseBody extends z.ZodType>(
  operation: StoreOperation,
  path: string,
  { responseBody, write, errors = [], ...definition }: WriteDefinition<Body, ResponseBody>,
) => {
  const feature = FEATURES[operation];
  return keyEndpoint<Body, ResponseBody>("post", path, {
    ...definition,
    checkBody: (body) => findWrongKey(body, "the header Idempotency-Key"),
    errors: [
      ...(feature === null ? [] : (["feature_disabled", "balance_insufficient"] as const)),
      ...errors,
      "queue_full",
    ],
    idempotencyKey:
      `Any text of at most ${SHORT_TEXT_LENGTH} characters. The write is done once; a repeat gets the first response, byte for ` +
      "byte, with a production key at any later time. Another body under the same key is a 400.",
    responseHeaders: {
      "Idempotent-Replayed": "`true` if this is the response to an earlier request.",
      ...(feature === null
        ? {}
        : { "Record-Id": "The id of the recorded registration or donation, as in the lists." }),
    },
    handle: async ({ ctx, caller, owner, body }) => {
      const key = readIdempotencyKey(ctx);
      const requested: StoreWrite = {
        ...owner,
        operation,
        idempotency: key === null ? null : { key, requestHash: hashRequest(body) },
        responseBody: responseBody === null ? "" : JSON.stringify(responseBody(body, caller)),
      };
      const response = await write(requested, body, caller);
      markReplay(ctx, response);
      if (response.recordId !== null) {
        ctx.set("Record-Id", response.recordId);
      }
      return response.responseBody;
    },
  });
};
