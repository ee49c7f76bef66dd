import { z } from "zod";
import { listStoreRegistrations } from "../../modules/stores/storeRegistrations.sql.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import {
  IMPACT_RECORD_COLUMNS,
  impactRecordJson,
  presentImpactRecord,
} from "../../modules/stores/presentRecords.rules.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { READ_ERROR } from "../http/readError.ts";
import { exportableKeyEndpoint } from "../http/lists/listEndpoints.ts";
import type { StoreAppContext } from "../context.ts";
import { KEY_ERROR, QUERY_ERROR } from "./errors.ts";
import { pageFields } from "./pagination.ts";
import { EXPORT_DETAILS, readStoreList } from "./readStoreList.ts";
import { KIND_NAMES } from "./storeKinds.ts";
import { impactFilterOf, listQuery } from "./listQuery.ts";

/** Builds the endpoint that lists the registrations of one kind. */
export const listEndpoint = (kind: Kind, { db, streaming }: StoreAppContext): Endpoint => {
  const { path, title, plural, listField } = KIND_NAMES[kind];
  const response = z
    .strictObject({
      [listField]: z.array(impactRecordJson),
      count: z.int().min(0).meta({ description: "Records on this page." }),
      ...pageFields,
    })
    .meta({ id: `${title}Records` });
  return exportableKeyEndpoint(
    {
      method: "get",
      path,
      description: {
        operationId: `list${title}s`,
        tag: plural,
        summary: `List the store's ${plural}`,
        details: `Returns the records in the key's mode that match every filter, newest first. Empty filters are ignored. ${EXPORT_DETAILS}`,
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
              created_at: "2025-06-01T12:00:00.000000Z",
            },
          ],
          count: 1,
          has_more: false,
          next_cursor: "",
        },
      },
      exported: { name: listField, columns: IMPACT_RECORD_COLUMNS },
      handle: ({ ctx, caller: { accountId, mode }, query }) => {
        const filter = impactFilterOf(query);
        const part = { limit: query.limit, after: query.after_created_at ?? null };
        return readStoreList(ctx, part, {
          list: (page) => listStoreRegistrations(db, { accountId, mode, kind }, filter, page),
          present: presentImpactRecord,
          presentPage: (records, page) => ({ [listField]: records, ...page }),
        });
      },
    },
    streaming,
  );
};
