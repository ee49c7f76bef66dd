import { z } from "zod";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import type { Outcome } from "../../modules/records/batches.rules.ts";
import {
  completeOutcomes,
  isAccepted,
  MAXIMUM_ITEMS,
  outcomeOf,
  rejectionsOf,
  requireAll,
  resultOfOne,
} from "../../modules/records/batches.rules.ts";
import { BatchRejectedError, DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import { mustBe } from "../../runtime/describeIssues.rules.ts";
import { ERROR_STATUS } from "../../runtime/errorStatus.ts";
import { grouped } from "../../runtime/counted.rules.ts";
import { inChunks } from "../../runtime/inChunks.ts";
import type { RequestContext } from "../http/requestContext.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { Description, Endpoint } from "../http/endpoint.ts";
import {
  booleanParameter,
  bodyObject,
  parseBody,
  responseObject,
  optional,
  wholeNumber,
} from "../http/parseRequest.ts";
import {
  findWrongKey,
  markReplay,
  readIdempotencyKey,
  REPLAY_HEADER,
} from "../http/idempotencyKey.ts";
import { streamText, WRITE_TIMEOUT_MS } from "../http/streamText.ts";
import { errorBody, presentError } from "./standaloneErrors.ts";

const batchQuery = z.object({
  atomic: booleanParameter().default("true").meta({
    default: true,
    description:
      "`true` records all items or none. `false` records every item that is not rejected.",
  }),
});

const ITEMS = `an array of 1 to ${MAXIMUM_ITEMS} items`;

/** Checks the batch; its items are checked one by one. */
const anyItems = bodyObject({
  items: z
    .array(z.unknown(), { error: mustBe(ITEMS) })
    .min(1, `must be ${ITEMS}`)
    .max(MAXIMUM_ITEMS, `must be ${ITEMS}`),
});

const rejectedBatch = responseObject("RejectedBatch", {
  error: z.string(),
  errors: optional(
    z.array(
      responseObject("RejectedItem", {
        index: wholeNumber()
          .max(MAXIMUM_ITEMS - 1)
          .describe("The index of the item in `items`, from 0."),
        status: z.int().describe("The status that the item alone would have had."),
        error: z.string(),
      }),
    ),
    "All rejected items. Absent if the request itself is invalid.",
  ),
});

const count = (description: string) => wholeNumber().max(MAXIMUM_ITEMS).describe(description);

const itemError = responseObject("ItemError", {
  status: z.int().min(400).describe("The status that the item alone would have had."),
  body: errorBody,
});

/** Returns the schemas of a batch, whose names begin as that of a single request continues after `New`. */
const describeBatch = (item: z.ZodType, result: z.ZodType): Endpoint["schemas"] => {
  const title = item.meta()?.id?.replace(/^New/u, "") ?? "";
  const recorded = responseObject(`${title}Success`, {
    status: z.literal(200),
    idempotent_replayed: z
      .boolean()
      .describe("Whether an earlier request or item created the record."),
    body: result,
  });
  return {
    query: batchQuery,
    body: bodyObject({
      items: z
        .array(item)
        .min(1)
        .max(MAXIMUM_ITEMS)
        .describe("The bodies of single requests, in the order in which to record them."),
    }).meta({ id: `New${title}Batch` }),
    response: responseObject(`${title}Batch`, {
      succeeded: count("How many items were recorded, or had been recorded before."),
      failed: count("How many items were rejected; 0 unless `atomic` is `false`."),
      results: z
        .array(z.union([recorded, itemError]).meta({ id: `${title}Result` }))
        .describe("One for each item, in the order of the items."),
    }),
  };
};

/** A valid item. */
type AnyEntry = {
  readonly idempotencyKey: string | null;
  /** Why it can only repeat an earlier write; null or undefined if it can be recorded. */
  readonly refusal?: DomainError | null;
};

/** A write that clients request alone or in batches, which have the bodies of many single requests; described as a single one. */
type WriteDefinition<
  Item extends z.ZodType,
  Result extends z.ZodType,
  Entry extends AnyEntry,
  Done extends { readonly replayed: boolean },
> = Description & {
  readonly requestsPerSecond?: number;
  /** What batches do beyond what is said of each. */
  readonly batchDetails?: string;
  readonly schemas: { readonly item: Item; readonly result: Result };
  readonly example: z.input<Item>;
  /** Checks a body before its schema does; returns the message of its rejection, or null. */
  readonly checkItem?: (item: unknown) => string | null;
  /** @throws DomainError if the item is rejected */
  readonly accept: (item: z.output<Item>, caller: Caller) => Entry;
  /**
   * Records valid items in one transaction and in their order.
   * @param isAtomic whether nothing is recorded if any item is rejected; otherwise the other items are recorded
   * @throws BatchRejectedError if nothing was recorded because of some items
   */
  readonly write: (
    caller: Caller,
    items: readonly Entry[],
    isAtomic: boolean,
  ) => Promise<readonly Outcome<Done>[]>;
  /** Returns the responses of single requests. It is called with a few results at a time. */
  readonly present: (caller: Caller, done: readonly Done[]) => Promise<readonly z.output<Result>[]>;
};

/** Original records of replays are read this many at a time: each may have 64 KiB of metadata. */
const PRESENTED_ITEMS = 10;

const batchDescription = (
  { operationId, tag, summary }: Description,
  details: string,
): Description => ({
  operationId: `${operationId}InBatch`,
  tag,
  summary: `${summary}: up to ${grouped(MAXIMUM_ITEMS)} requests in one`,
  details:
    "Processes the items in one transaction and in their order. Each item is the body of a single request and can have " +
    `an idempotency_key: a known one, or that of an earlier item, returns the original record.${details}`,
  errors: [
    [
      "request_invalid",
      "The request is invalid, or items are rejected and nothing was recorded; `errors` names them all.",
    ],
    [
      "daily_limit_reached",
      "All rejected items have the status 403, such as items beyond the limit of a day, and nothing was recorded; " +
        "`errors` names them.",
    ],
    "queue_full",
  ],
  errorBodies: { request_invalid: rejectedBatch, daily_limit_reached: rejectedBatch },
});

/** Returns the bodies of results. If some were recorded just now, no error may be a 503, after which nothing was. */
const readBodies = async <Done extends { readonly replayed: boolean }, Body>(
  done: readonly Done[],
  present: (done: readonly Done[]) => Promise<readonly Body[]>,
): Promise<readonly Body[]> => {
  try {
    return await present(done);
  } catch (cause) {
    if (done.every(({ replayed }) => replayed)) {
      throw cause;
    }
    throw new Error("The items are recorded, but their results cannot be read.", { cause });
  }
};

/** The response starts with the first results, so that an error until then is an error response. */
async function* presentOutcomes<Done extends { readonly replayed: boolean }>(
  outcomes: readonly Outcome<Done>[],
  present: (done: readonly Done[]) => Promise<readonly unknown[]>,
): AsyncGenerator<Iterable<string>, void, void> {
  const failed = rejectionsOf(outcomes).size;
  let text = `{"succeeded":${outcomes.length - failed},"failed":${failed},"results":[`;
  for (let start = 0; start < outcomes.length; start += PRESENTED_ITEMS) {
    const part = outcomes.slice(start, start + PRESENTED_ITEMS);
    const done = part.filter((outcome): outcome is Done => !(outcome instanceof DomainError));
    const bodies = (await readBodies(done, present)).values();
    const results = part.map((outcome) =>
      outcome instanceof DomainError
        ? { status: ERROR_STATUS[outcome.code], body: presentError(outcome.code, outcome.message) }
        : { status: 200, idempotent_replayed: outcome.replayed, body: bodies.next().value },
    );
    yield [text, results.map((result) => JSON.stringify(result)).join(",")];
    text = ",";
  }
  yield ["]}"];
}

/** Writes the valid items of a batch, unless an atomic one has others. */
const writeValid = async <Entry extends AnyEntry, Done>(
  items: readonly Outcome<Entry>[],
  isAtomic: boolean,
  write: (entries: readonly Entry[]) => Promise<readonly Outcome<Done>[]>,
): Promise<readonly Outcome<Done>[]> => {
  if (isAtomic && !items.every(isAccepted)) {
    // With the malformed items, those are named that are refused whatever the records are.
    requireAll(
      items.map((item) =>
        isAccepted(item) && item.idempotencyKey === null ? (item.refusal ?? item) : item,
      ),
    );
  }
  const entries = items.filter(isAccepted);
  return completeOutcomes(items, entries.length === 0 ? [] : await write(entries));
};

/** Responds to a batch of which nothing was recorded because of its items: 403 if each of them alone had that status. */
const respondRejected = (ctx: RequestContext, given: unknown): void => {
  if (!(given instanceof BatchRejectedError)) {
    throw given;
  }
  const errors = [...given.rejections].map(([index, { code, message }]) => ({
    index,
    status: ERROR_STATUS[code],
    error: message,
  }));
  ctx.status = errors.every(({ status }) => status === 403) ? 403 : 400;
  ctx.body = { error: given.message, errors } satisfies z.output<typeof rejectedBatch>;
};

/** Returns the endpoint of a write, as a batch of one, and that of many such writes in one request. */
export const writeEndpoints = <
  Item extends z.ZodType,
  Result extends z.ZodType,
  Entry extends AnyEntry,
  Done extends { readonly replayed: boolean },
>(
  path: string,
  {
    batchDetails = "",
    schemas: { item, result },
    example,
    checkItem = () => null,
    accept,
    write,
    present,
    ...single
  }: WriteDefinition<Item, Result, Entry, Done>,
): readonly [single: Endpoint, batch: Endpoint] => {
  const parseItem = (raw: unknown, caller: Caller): Outcome<Entry> =>
    outcomeOf(() => {
      const problem = checkItem(raw) ?? findWrongKey(raw);
      if (problem !== null) {
        throw invalidRequest(problem);
      }
      return accept(parseBody(item, raw), caller);
    });
  return [
    keyEndpoint<Item, Result>("post", path, {
      ...single,
      responseHeaders: REPLAY_HEADER,
      schemas: { body: item, response: result },
      example,
      checkBody: checkItem,
      handle: async ({ ctx, caller, body }) => {
        const done = resultOfOne(await write(caller, [accept(body, caller)], false));
        const bodies = await readBodies([done], (items) => present(caller, items));
        markReplay(ctx, done);
        return resultOfOne(bodies);
      },
    }),
    {
      ...keyEndpoint("post", `${path}/batch`, {
        ...batchDescription(single, batchDetails),
        isBatch: true,
        schemas: { query: batchQuery, body: anyItems, response: z.unknown() },
        // Keys belong to items: one key for all of them would record only the first.
        checkBody: (body) => findWrongKey(body, "idempotency_key of each item"),
        handle: async ({ ctx, caller, query: { atomic }, body: { items } }) => {
          if (readIdempotencyKey(ctx) !== null) {
            throw invalidRequest(
              "Idempotency-Key: not accepted for a batch; set idempotency_key on each item",
            );
          }
          const parsed = items.map((each) => parseItem(each, caller));
          const isAtomic = atomic === "true";
          const outcomes = await writeValid(parsed, isAtomic, (entries) =>
            write(caller, entries, isAtomic),
          ).catch((error: unknown) => respondRejected(ctx, error));
          if (outcomes) {
            const text = presentOutcomes(outcomes, (done) => present(caller, done));
            await streamText(ctx, inChunks(text), WRITE_TIMEOUT_MS);
          }
          return null;
        },
      }),
      schemas: describeBatch(item, result),
      example: { items: [example] },
    },
  ];
};
