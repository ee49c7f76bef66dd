import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { listStoreRegistrations } from "../../../db/registrations/storeRegistrations.ts";
import type { Kind } from "../../../domain/accounts/accounts.ts";
import type { Endpoint } from "../../http/endpoint.ts";
import { READ_ERROR } from "../../http/readError.ts";
import { keyEndpoint } from "../../http/endpoint.ts";
import { writeCursor } from "../cursor.ts";
import { KEY_ERROR, QUERY_ERROR } from "../errors.ts";
import { pageFields, toPage } from "../pagination.ts";
import { impactRecord, presentRecord } from "./impactRecord.ts";
import { KIND_NAMES } from "./kinds.ts";
import { impactFilterOf, listQuery } from "./listQuery.ts";

/** Builds the endpoint that lists the registrations of one kind. */
export const listEndpoint = (kind: Kind, { db }: { readonly db: CommonQueryMethods }): Endpoint => {
  const { path, title, plural, listField } = KIND_NAMES[kind];
  const response = z
    .strictObject({
      [listField]: z.array(impactRecord),
      count: z.int().min(0).meta({ description: "Records on this page." }),
      ...pageFields,
    })
    .meta({ id: `${title}Records` });
  return keyEndpoint({
    method: "get",
    path,
    description: {
      operationId: `list${title}s`,
      tag: plural,
      summary: `List the store's ${plural}`,
      details:
        "Returns the records in the key's mode that match every filter, newest first. Empty filters are ignored.",
      errors: [QUERY_ERROR, KEY_ERROR, READ_ERROR],
    },
    schemas: { query: listQuery, response },
    examples: {
      response: {
        [listField]: [
          {
            id: "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11",
            count: 3,
            refunded_count: 0,
            customer_name: "Ann Lee",
            customer_email: "ann@example.com",
            customer_id: "7701",
            order_id: "#1001",
            notes: "",
            created_at: "2025-06-01T12:00:00.000Z",
          },
        ],
        count: 1,
        has_more: false,
        next_cursor: "",
      },
    },
    handle: async ({ caller: { accountId, mode }, query }) => {
      const owner = { accountId, mode, kind };
      const found = await listStoreRegistrations(db, owner, impactFilterOf(query), {
        after: query.after_created_at ?? null,
        limit: query.limit + 1,
      });
      const { page, last } = toPage(found, query.limit);
      return {
        [listField]: page.map(presentRecord),
        count: page.length,
        has_more: last !== undefined,
        next_cursor: last === undefined ? "" : writeCursor(last),
      };
    },
  });
};
