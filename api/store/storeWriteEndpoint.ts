import { hash } from "node:crypto";
import type { CommonQueryMethods } from "slonik";
import type { z } from "zod";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import type { Store } from "../../db/stores/stores.ts";
import { DomainError } from "../../domain/errors.ts";
import { idempotencyKey } from "../../domain/registrations/registrationFields.ts";
import type { Feature, StoreOperation } from "../../domain/stores/stores.ts";
import type { StoreAnswer, StoreWrite } from "../../domain/stores/storeWrites.ts";
import { findEarlierAnswer } from "../../services/stores/runStoreWrite.ts";
import type { ApiContext } from "../http/apiContext.ts";
import type { Endpoint, ErrorResponse, KeyDefinition } from "../http/endpoint.ts";
import { textKeyEndpoint } from "../http/endpoint.ts";
import { parseRequest, queryObject } from "../http/parseRequest.ts";
import { decodeHeader } from "./decodeHeader.ts";

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

/** The store of a request that has passed its check. */
const storeOf = (ctx: ApiContext): Store => {
  if (ctx.state.store === undefined) {
    throw new TypeError("The route runs without the authentication that its handler counts on.");
  }
  return ctx.state.store;
};

/**
 * Refuses new writes of what is switched off. A repeat gets its first answer all the same.
 * @returns that answer; null for a write that may go on
 */
const answerWhereOff = async (
  db: CommonQueryMethods,
  store: Store,
  feature: Feature | null,
  write: StoreWrite,
): Promise<StoreAnswer | null> => {
  if (feature === null || store[feature]) {
    return null;
  }
  const earlier = await findEarlierAnswer(db, write);
  if (earlier) {
    return earlier;
  }
  throw new DomainError("feature_disabled", disabledMessage(feature));
};

const headerSchema = queryObject({ "Idempotency-Key": idempotencyKey() });

const readKey = (ctx: ApiContext): string | null => {
  // Node joins two headers of one name to one text, which would be a key that nobody gave.
  if ((ctx.req.headersDistinct["idempotency-key"] ?? []).length > 1) {
    throw new DomainError("request_invalid", "Idempotency-Key: must be given at most once");
  }
  const given = ctx.req.headers["idempotency-key"];
  if (typeof given !== "string" || given.trim() === "") {
    return null;
  }
  const headers = { "Idempotency-Key": decodeHeader(given) };
  return parseRequest(headerSchema, headers, "parameter")["Idempotency-Key"];
};

/** The same for the same fields with the same values, in whatever order and however they were written. */
const hashRequest = (body: object): string => {
  const fields = Object.entries(body).toSorted(([one], [two]) => (one < two ? -1 : 1));
  return hash("sha256", JSON.stringify(fields), "hex");
};

type WriteDefinition<Body extends z.ZodType<object>, ResponseBody extends z.ZodType> = Omit<
  KeyDefinition<z.ZodType, Body, ResponseBody, Promise<string>>,
  "handle" | "method" | "checkBody"
> & {
  readonly db: CommonQueryMethods;
  readonly operation: StoreOperation;
  readonly feature: Feature | null;
  /** The answer of success, which is known from the request. */
  readonly answer: (body: z.output<Body>, caller: Caller) => z.output<ResponseBody>;
  readonly write: (write: StoreWrite, body: z.output<Body>) => Promise<StoreAnswer>;
};

/** A write of a store: with the header `Idempotency-Key` it is done once, and every repeat gets the first answer. */
export const storeWriteEndpoint = <Body extends z.ZodType<object>, ResponseBody extends z.ZodType>({
  db,
  operation,
  feature,
  answer,
  write,
  description,
  ...definition
}: WriteDefinition<Body, ResponseBody>): Endpoint =>
  textKeyEndpoint<Body, ResponseBody>({
    ...definition,
    method: "post",
    description: {
      ...description,
      errors: [...description.errors, ...(feature === null ? [] : [disabledError(feature)])],
      requestHeaders: {
        "Idempotency-Key": {
          description:
            "Any text of at most 255 characters. The write is done once; a repeat gets the first answer, byte for " +
            "byte, however late. Another body under the same key is a 400.",
          maxLength: 255,
        },
      },
      responseHeaders: {
        "Idempotent-Replayed": "`true` when this is an earlier request's answer.",
      },
    },
    handle: async ({ ctx, caller, body }) => {
      const key = readKey(ctx);
      const asked: StoreWrite = {
        accountId: caller.accountId,
        mode: caller.mode,
        operation,
        idempotency: key === null ? null : { key, requestHash: hashRequest(body) },
        answer: JSON.stringify(answer(body, caller)),
      };
      const earlier = await answerWhereOff(db, storeOf(ctx), feature, asked);
      const { answer: text, replayed } = earlier ?? (await write(asked, body));
      if (replayed) {
        ctx.set("Idempotent-Replayed", "true");
      }
      return text;
    },
  });
