import { z } from "zod";
import { listStoreRegistrations } from "../../modules/stores/storeRegistrations.sql.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import {
  IMPACT_RECORD_COLUMNS,
  impactRecordJson,
  presentImpactRecord,
  DONATION_RECORD_COLUMNS,
  donationRecordJson,
  presentDonationRecord,
} from "../../modules/stores/presentRecords.rules.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { READ_ERROR } from "../http/errorResponses.ts";
import { exportableKeyEndpoint } from "../http/listEndpoints.ts";
import type { StoreAppContext } from "../context.ts";
import { KEY_ERROR, QUERY_ERROR } from "./storeErrors.ts";
import {
  pageFields,
  poolOfList,
  impactFilterOf,
  listQuery,
  EXPORT_DETAILS,
  readStoreList,
} from "./storeLists.ts";
import { KIND_NAMES } from "./storeKinds.ts";
import { listStoreDonations } from "../../modules/stores/storeDonations.sql.ts";

/** Builds the endpoint that lists the registrations of one kind. */
export const listEndpoint = (kind: Kind, context: StoreAppContext): Endpoint => {
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
        const db = poolOfList(context, query);
        const filter = impactFilterOf(query);
        const part = { limit: query.limit, after: query.after_created_at ?? null };
        return readStoreList(ctx, part, {
          list: (page) => listStoreRegistrations(db, { accountId, mode, kind }, filter, page),
          present: presentImpactRecord,
          presentPage: (records, page) => ({ [listField]: records, ...page }),
        });
      },
    },
    context.streaming,
  );
};

const response = z
  .strictObject({
    donations: z.array(donationRecordJson),
    count: z.int().min(0).meta({ description: "Records on this page." }),
    ...pageFields,
  })
  .meta({ id: "DonationRecords" });

/** The endpoint that lists a store's donations. */
export const donationListEndpoint = (context: StoreAppContext): Endpoint =>
  exportableKeyEndpoint(
    {
      method: "get",
      path: "/app/api/charity/donations",
      description: {
        operationId: "listDonations",
        tag: "donations",
        summary: "List the store's donations",
        details:
          "Returns the donations in the key's mode that match every filter, newest first, including refunded ones. Empty " +
          `filters are ignored. ${EXPORT_DETAILS}`,
        errors: [QUERY_ERROR, KEY_ERROR, READ_ERROR],
      },
      schemas: { query: listQuery, response },
      examples: {
        response: {
          donations: [
            {
              id: "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e22",
              amount: 12.5,
              amount_cents: 1250,
              currency: "USD",
              charity_name: "American Red Cross",
              ein: "53-0196605",
              nonprofit_id: "irs_530196605",
              customer_name: "Ann Lee",
              customer_email: "ann@example.com",
              customer_id: "7701",
              order_id: "#1001",
              refunded: false,
              created_at: "2025-06-01T12:00:00.000000Z",
            },
          ],
          count: 1,
          has_more: false,
          next_cursor: "",
        },
      },
      exported: { name: "donations", columns: DONATION_RECORD_COLUMNS },
      handle: ({ ctx, caller: { accountId, mode }, query }) => {
        const db = poolOfList(context, query);
        const filter = impactFilterOf(query);
        const part = { limit: query.limit, after: query.after_created_at ?? null };
        return readStoreList(ctx, part, {
          list: (page) => listStoreDonations(db, { accountId, mode }, filter, page),
          present: presentDonationRecord,
          presentPage: (donations, page) => ({ donations, ...page }),
        });
      },
    },
    context.streaming,
  );
