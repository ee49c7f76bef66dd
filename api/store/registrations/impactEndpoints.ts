import type { DatabasePool } from "slonik";
import { listStoreRegistrations } from "../../../db/registrations/storeRegistrations.ts";
import { KINDS } from "../../../domain/accounts/accounts.ts";
import type { Kind } from "../../../domain/accounts/accounts.ts";
import { writeCursor } from "../cursor.ts";
import type { StoreRegistrationWriter } from "../../../services/stores/createStoreRegistrationWriter.ts";
import type { Endpoint } from "../../http/endpoint.ts";
import { keyEndpoint } from "../../http/endpoint.ts";
import { BUDGET_ERROR, KEY_ERROR, QUERY_ERROR, QUEUE_ERROR } from "../errors.ts";
import { customerDetailsOf, SUCCESS } from "../fields.ts";
import { storeWriteEndpoint } from "../storeWriteEndpoint.ts";
import { KIND_NAMES } from "./kinds.ts";
import { impactFilterOf, listQuery, presentRecord, SCHEMAS, unitsOf } from "./schemas.ts";

type Dependencies = { readonly db: DatabasePool; readonly storeWriter: StoreRegistrationWriter };

const BODY_EXAMPLES = {
  tree: { trees: 3, customer_name: "Ann Lee", order_id: "#1001" },
  bottle: { bottles: 3, customer_name: "Ann Lee", order_id: "#1001" },
};

const order = { customer_name: "Ann Lee", order_id: "#1001" };

const writeEndpoint = (kind: Kind, { db, storeWriter }: Dependencies): Endpoint => {
  const { operation, feature, path, title, plural, verb, countField } = KIND_NAMES[kind];
  return storeWriteEndpoint({
    db,
    operation,
    feature,
    path,
    description: {
      operationId: `${verb.toLowerCase()}${title}s`,
      tag: plural,
      summary: `${verb} ${plural} for a customer or an order`,
      details: "With a production key the price is taken from the store's balance.",
      errors: [
        {
          code: "request_invalid",
          when: "Something in the request is not as it must be; the message names every field.",
          example: `${plural}: must be an integer from 1 to ${Number.MAX_SAFE_INTEGER}`,
        },
        KEY_ERROR,
        BUDGET_ERROR,
        QUEUE_ERROR,
      ],
    },
    schemas: { body: SCHEMAS[kind].body, response: SCHEMAS[kind].response },
    examples: {
      body: BODY_EXAMPLES[kind],
      response: { status: SUCCESS, [countField]: 3, ...order },
    },
    responseBody: (body) => ({
      status: SUCCESS,
      [countField]: unitsOf(body),
      customer_name: body.customer_name ?? "",
      order_id: body.order_id ?? "",
    }),
    write: (write, body) =>
      storeWriter.register({ ...write, ...customerDetailsOf(body), kind, count: unitsOf(body) }),
  });
};

const listEndpoint = (kind: Kind, { db }: Dependencies): Endpoint => {
  const { path, title, plural, listField } = KIND_NAMES[kind];
  return keyEndpoint({
    method: "get",
    path,
    description: {
      operationId: `list${title}s`,
      tag: plural,
      summary: `List the store's ${plural}`,
      details:
        "The records in the key's mode that match all filters, newest first, page by page. An empty filter is none.",
      errors: [QUERY_ERROR, KEY_ERROR],
    },
    schemas: { query: listQuery, response: SCHEMAS[kind].listResponse },
    examples: {
      response: {
        [listField]: [
          {
            id: "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11",
            count: 3,
            refunded_count: 0,
            ...order,
            customer_email: "ann@example.com",
            customer_id: "7701",
            notes: "",
            created_at: "2025-06-01T12:00:00.000Z",
          },
        ],
        count: 1,
        has_more: false,
        next_cursor: "",
      },
    },
    handle: async ({ caller, query }) => {
      const owner = { accountId: caller.accountId, mode: caller.mode, kind };
      const found = await listStoreRegistrations(db, owner, impactFilterOf(query), {
        after: query.after_created_at ?? null,
        // One more than the page, to know whether anything follows.
        limit: query.limit + 1,
      });
      const page = found.slice(0, query.limit);
      const last = found.length > page.length ? page.at(-1) : undefined;
      return {
        [listField]: page.map(presentRecord),
        count: page.length,
        has_more: last !== undefined,
        next_cursor: last === undefined ? "" : writeCursor(last),
      };
    },
  });
};

/** Trees and bottles: one implementation under two names. */
export const impactEndpoints = (dependencies: Dependencies): readonly Endpoint[] =>
  KINDS.flatMap((kind) => [writeEndpoint(kind, dependencies), listEndpoint(kind, dependencies)]);
