import type { z } from "zod";
import { accountModeOf } from "../../modules/records/owner.rules.ts";
import type { DonationFilter } from "../../modules/charities/donations.rules.ts";
import { donate, readDonated } from "../../modules/charities/donate.ts";
import { countDonations, listDonations } from "../../modules/charities/donations.sql.ts";
import { listAllDonations } from "../../modules/charities/listAllDonations.ts";
import { readRefunded, refundDonations } from "../../modules/charities/refundDonations.ts";
import { PROVIDER_SHARE_ERROR, REQUESTS_PER_SECOND } from "../endpoints/charities.ts";
import { rangeOfDays, setNextLink } from "../http/listPages.ts";
import { listEndpoint, pageOrAll } from "../http/listEndpoints.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { READ_ERROR } from "../http/errorResponses.ts";
import { presentPages } from "../../runtime/presentPages.ts";
import {
  DONATION_COLUMNS,
  presentDonation,
} from "../../modules/charities/presentDonation.rules.ts";
import type { StandaloneContext } from "../context.ts";
import { attributionOf, isBlankId } from "./clientFields.ts";
import {
  DONATION_ID_REQUIRED,
  donationRequestOf,
  presentDonated,
  presentDonationRefund,
  refundRequestOf,
  donateBody,
  donateResponse,
  listQuery,
  listResponse,
  refundBody,
  refundResponse,
  EXAMPLES,
  TAG,
} from "./donationSchemas.ts";
import { IN_ONE, writeEndpoints } from "./writeEndpoints.ts";

const donateEndpoints = (context: StandaloneContext): readonly Endpoint[] =>
  writeEndpoints({
    path: "/charities/donate",
    tag: TAG,
    requestsPerSecond: REQUESTS_PER_SECOND,
    single: {
      operationId: "donate",
      summary: "Record a donation to a charity",
      details:
        "Validates the charity with the organization's charity provider first. Live donations need the donation " +
        "subscription. A known idempotency_key returns the original record.",
      errors: {
        request_invalid:
          "The request is invalid, no charity is found, or the donation subscription is not active.",
        ...PROVIDER_SHARE_ERROR,
        internal_error:
          "The charity could not be validated, and nothing was recorded. After the message `internal server error` " +
          "the donation may be recorded: repeat the request with the same idempotency_key.",
      },
    },
    batch: {
      operationId: "donateInBatch",
      title: "RecordedDonation",
      summary: `Record donations ${IN_ONE}`,
      details:
        "Validates each charity once, and then records the items in one transaction and in their order. Each item is the " +
        "body of a single request, with an idempotency_key of its own: a known one, or that of an earlier item, returns " +
        "the original record. A batch validates at most 20 charities with a remote provider. Items for further charities have the " +
        "status 503; repeat the batch to validate more of them.",
      errors: {
        internal_error:
          "The catalogue of charities failed, and nothing was recorded. After the message `internal server error` the " +
          "items may be recorded: repeat the batch with the same keys.",
      },
    },
    schemas: { item: donateBody, result: donateResponse },
    example: EXAMPLES.donate,
    accept: donationRequestOf,
    write: (caller, items, isAtomic) => donate(context, caller, items, isAtomic),
    present: async (caller, done) => (await readDonated(context, caller, done)).map(presentDonated),
  });

const filterOf = (query: z.output<typeof listQuery>): DonationFilter => {
  const attribution = attributionOf(query.attribution, query.without_attribution);
  return {
    ...(attribution === undefined ? {} : { attribution }),
    ...(query.metadata_key === undefined ? {} : { metadataKey: query.metadata_key }),
    ...(query.metadata_value === undefined ? {} : { metadataValue: query.metadata_value }),
    ...rangeOfDays(query.start_date, query.end_date),
  };
};

const listOf = ({ reads, bulkReads, streaming, publicBaseUrl }: StandaloneContext): Endpoint =>
  listEndpoint(
    {
      method: "get",
      path: "/charities/donations",
      requestsPerSecond: REQUESTS_PER_SECOND,
      description: {
        operationId: "listDonations",
        tag: TAG,
        summary: "List donations, newest first",
        details:
          "Includes refunded donations. A donation is listed if it matches all filters. CSV and NDJSON have all matching " +
          "donations, unless page or page_size is given.",
        responseHeaders: {
          Link: 'The URL of the next page, as `<…>; rel="next"`. Absent on the last page. Only of JSON.',
        },
        errors: READ_ERROR,
      },
      schemas: { query: listQuery, response: listResponse },
      exported: { name: "donations", columns: DONATION_COLUMNS },
      handle: ({ ctx, caller, query }) => {
        const owner = accountModeOf(caller);
        const filter = filterOf(query);
        const { page, page_size: pageSize } = query;
        const offset = (page - 1) * pageSize;
        const readPage = async () =>
          (await listDonations(reads, owner, filter, { offset, limit: pageSize })).map(
            presentDonation,
          );
        return {
          json: async () => {
            const [totalItems, donations] = await Promise.all([
              countDonations(reads, owner, filter),
              readPage(),
            ]);
            const totalPages = Math.ceil(totalItems / pageSize);
            if (page < totalPages) {
              setNextLink(ctx, publicBaseUrl(), { page: String(page + 1) });
            }
            return {
              total_items: totalItems,
              total_pages: totalPages,
              page,
              page_size: pageSize,
              donations,
            };
          },
          rows: () =>
            pageOrAll(ctx, ["page", "page_size"], readPage, () =>
              presentPages(listAllDonations(bulkReads, owner, filter), presentDonation),
            ),
        };
      },
    },
    streaming,
  );

const refundEndpoints = (context: StandaloneContext): readonly Endpoint[] =>
  writeEndpoints({
    path: "/refund/donations",
    tag: TAG,
    single: {
      operationId: "refundDonation",
      summary: "Refund a donation",
      details:
        "Marks the donation as refunded and subtracts it from the totals. Nothing is reversed at the payment processor. " +
        "Refunding a donation again returns the first refund.",
      errors: {
        request_invalid:
          "The request is invalid, or the idempotency_key was used for another donation.",
        record_not_found: "The organization has no such donation in the key's mode.",
      },
    },
    batch: {
      operationId: "refundDonationsInBatch",
      title: "DonationRefund",
      summary: `Refund donations ${IN_ONE}`,
      details:
        "Refunds the items in one transaction and in their order. Each item is the body of a single request, with an " +
        "idempotency_key of its own. Refunding a donation again returns the first refund.",
    },
    schemas: { item: refundBody, result: refundResponse },
    example: EXAMPLES.refund,
    checkItem: (item) => (isBlankId(item) ? DONATION_ID_REQUIRED : null),
    accept: refundRequestOf,
    write: (caller, items, isAtomic) =>
      refundDonations(context, accountModeOf(caller), items, isAtomic),
    present: async (caller, done) =>
      (await readRefunded(context, caller, done)).map(presentDonationRefund),
  });

export const donationEndpoints = (context: StandaloneContext): readonly Endpoint[] => [
  ...donateEndpoints(context),
  listOf(context),
  ...refundEndpoints(context),
];
