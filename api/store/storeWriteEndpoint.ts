import { hash } from "node:crypto";
import type { CommonQueryMethods } from "slonik";
import type { z } from "zod";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import type { Store } from "../../db/stores/stores.ts";
import { DomainError } from "../../domain/errors.ts";
import type { Feature, StoreOperation } from "../../domain/stores/stores.ts";
import type { StoreResponse, StoreWrite } from "../../domain/stores/storeWrites.ts";
import type { SpendingGuard } from "../../services/registrations/limits/createSpendingGuard.ts";
import { findEarlierResponse } from "../../services/stores/records/runIdempotentWrite.ts";
import type { ApiContext } from "../http/apiContext.ts";
import type { Endpoint, ErrorResponse, KeyDefinition } from "../http/endpoint.ts";
import { textKeyEndpoint } from "../http/endpoint.ts";
import { readIdempotencyKey } from "../http/idempotencyKey.ts";
import { markReplay } from "../http/replays.ts";

const FEATURE_NAMES: Readonly<Record<Feature, string>> = {
  treePlanting: "tree planting is",
  plasticRemoval: "plastic removal is",
  donations: "donations are",
};

const disabledMessage = (feature: Feature): string =>
  `${FEATURE_NAMES[feature]} disabled for this store`;

const disabledError = (feature: Feature): ErrorResponse => ({
  code: "feature_disabled",
  when: "The operator has disabled this feature for the store.",
  example: disabledMessage(feature),
});

/** Returns the store of an authenticated request. */
const storeOf = (ctx: ApiContext): Store => {
  if (ctx.state.store === undefined) {
    throw new TypeError("The route runs without the authentication that its handler needs.");
  }
  return ctx.state.store;
};

type Dependencies = {
  readonly db: CommonQueryMethods;
  readonly guard: Pick<SpendingGuard, "findOriginal">;
};

/**
 * Rejects a new write of a disabled feature.
 * @returns the stored response of a repeated write; null if the write may proceed
 */
const checkFeature = async (
  { db, guard }: Dependencies,
  caller: Caller,
  store: Store,
  feature: Feature | null,
  write: StoreWrite,
): Promise<StoreResponse | null> => {
  if (feature === null || store[feature]) {
    return null;
  }
  const earlier = await guard.findOriginal(caller, {
    idempotencyKey: write.idempotency?.key ?? null,
    findOriginal: () => findEarlierResponse(db, write),
  });
  if (earlier) {
    return earlier;
  }
  throw new DomainError("feature_disabled", disabledMessage(feature));
};

/** Returns a hash of the parsed fields, whatever their order and however they were written. */
const hashRequest = (body: object): string => {
  const fields = Object.entries(body)
    .filter(([, value]) => value !== undefined)
    .toSorted(([one], [two]) => (one < two ? -1 : 1));
  return hash("sha256", JSON.stringify(fields), "hex");
};

type WriteDefinition<Body extends z.ZodType<object>, ResponseBody extends z.ZodType> = Omit<
  KeyDefinition<z.ZodType, Body, ResponseBody, Promise<string>>,
  "handle" | "method" | "checkBody"
> &
  Dependencies & {
    readonly operation: StoreOperation;
    readonly feature: Feature | null;
    /** Builds the body of the response on success. */
    readonly responseBody: (body: z.output<Body>, caller: Caller) => z.output<ResponseBody>;
    readonly write: (
      write: StoreWrite,
      body: z.output<Body>,
      caller: Caller,
    ) => Promise<StoreResponse>;
  };

/** Builds the endpoint of a write that runs once per `Idempotency-Key`; a repeat gets the first response. */
export const storeWriteEndpoint = <Body extends z.ZodType<object>, ResponseBody extends z.ZodType>({
  db,
  guard,
  operation,
  feature,
  responseBody,
  write,
  description,
  ...definition
}: WriteDefinition<Body, ResponseBody>): Endpoint =>
  textKeyEndpoint<Body, ResponseBody>({
    ...definition,
    method: "post",
    description: {
      ...description,
      errors: [...(feature === null ? [] : [disabledError(feature)]), ...description.errors],
      requestHeaders: {
        "Idempotency-Key": {
          description:
            "Any text of at most 255 characters. The write is done once; a repeat gets the first response, byte for " +
            "byte, with a production key at any later time. Another body under the same key is a 400.",
          maxLength: 255,
        },
      },
      responseHeaders: {
        "Idempotent-Replayed": "`true` if this is the response to an earlier request.",
        ...(operation === "refund"
          ? {}
          : { "Record-Id": "The id of the recorded registration or donation, as in the lists." }),
      },
    },
    handle: async ({ ctx, caller, body }) => {
      const key = readIdempotencyKey(ctx);
      const requested: StoreWrite = {
        accountId: caller.accountId,
        mode: caller.mode,
        operation,
        idempotency: key === null ? null : { key, requestHash: hashRequest(body) },
        responseBody: JSON.stringify(responseBody(body, caller)),
      };
      const earlier = await checkFeature({ db, guard }, caller, storeOf(ctx), feature, requested);
      const response = earlier ?? (await write(requested, body, caller));
      markReplay(ctx, response);
      if (response.recordId !== null) {
        ctx.set("Record-Id", response.recordId);
      }
      return response.responseBody;
    },
  });
