import type { z } from "zod";
import { accountModeOf } from "../../modules/records/owner.rules.ts";
import { shownIdOf } from "../../modules/records/recordIds.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { CharityIds } from "../../modules/charities/charities.rules.ts";
import { DONATION_COLUMNS, presentDonation } from "../../modules/charities/donations.rules.ts";
import type { DonationFilter } from "../../modules/charities/donations.rules.ts";
import { donate } from "../../modules/charities/donate.ts";
import { countDonations, listDonations } from "../../modules/charities/donations.sql.ts";
import { listAllDonations, readDonations } from "../../modules/charities/readDonations.ts";
import { refundDonations } from "../../modules/charities/refundDonations.ts";
import { subscribeToDonations } from "../../modules/charities/subscribeToDonations.ts";
import { charitySearchEndpoint, REQUESTS_PER_SECOND } from "../endpoints/charities.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import { rangeOfDays, setNextLink } from "../http/listPages.ts";
import { listEndpoint, pageOrAll } from "../http/listEndpoints.ts";
import { presentPages } from "../../runtime/presentPages.ts";
import type { AppContext } from "../context.ts";
import { attributionOf, isBlankId } from "./clientFields.ts";
import {
  donateBody,
  donateResponse,
  listQuery,
  listResponse,
  refundBody,
  refundResponse,
  subscribeResponse,
  TAG,
} from "./donationSchemas.ts";
import { writeEndpoints } from "./writeEndpoints.ts";

/** @throws DomainError request_invalid if the body names no charity */
const charityOf = ({
  ein = null,
  nonprofit_id: nonprofitId = null,
}: z.output<typeof donateBody>): CharityIds => {
  if (nonprofitId !== null) {
    return { ein, nonprofitId };
  }
  if (ein !== null) {
    return { ein, nonprofitId: null };
  }
  throw invalidRequest("one of ein and nonprofit_id is required");
};

const donateEndpoints = (context: AppContext) =>
  writeEndpoints("/charities/donate", {
    requestsPerSecond: REQUESTS_PER_SECOND,
    tag: TAG,
    operationId: "donate",
    summary: "Record a donation to a charity",
    details:
      "Validates the charity with the organization's charity provider first. Live donations need the donation " +
      "subscription. A known idempotency_key returns the original record.",
    errors: ["charity_unconfirmed"],
    batchDetails:
      " Validates each charity once before, and at most 20 charities with a remote provider. Items for further " +
      "charities have the status 503; repeat the batch to validate more of them.",
    schemas: { item: donateBody, result: donateResponse },
    example: {
      amount_cents: 500,
      ein: "53-0196605",
      attribution: "newsletter",
      metadata: { campaign: "spring" },
      idempotency_key: "order-1001",
    },
    accept: (body) => ({
      amountCents: body.amount_cents,
      charity: charityOf(body),
      charityName: body.charity_name ?? null,
      idempotencyKey: body.idempotency_key ?? null,
      attribution: body.attribution ?? "",
      metadata: body.metadata ?? {},
    }),
    write: (caller, items, isAtomic) => donate(context, caller, items, isAtomic),
    present: async (caller, done) =>
      (await readDonations(context, caller, done)).map(({ donation, totalDonations }) => {
        const details = presentDonation(donation);
        const { id, amount_cents, charity_name, ein, nonprofit_id } = details;
        const shown = { donation_id: id, amount_cents, charity_name, ein, nonprofit_id };
        const others = { total_donations: totalDonations, donation_details: [details] };
        return Object.assign(shown, others);
      }),
  });

const filterOf = (query: z.output<typeof listQuery>): DonationFilter => ({
  attribution: attributionOf(query.attribution, query.without_attribution),
  metadataKey: query.metadata_key,
  metadataValue: query.metadata_value,
  ...rangeOfDays(query.start_date, query.end_date),
});

const listOf = ({ reads, bulkLists, streaming, publicBaseUrl }: AppContext) =>
  listEndpoint(streaming, "/charities/donations", {
    requestsPerSecond: REQUESTS_PER_SECOND,
    operationId: "listDonations",
    tag: TAG,
    summary: "List donations, newest first",
    details:
      "Includes refunded donations. A donation is listed if it matches all filters. CSV and NDJSON have all matching " +
      "donations, unless page or page_size is given.",
    responseHeaders: {
      Link: 'The URL of the next page, as `<…>; rel="next"`. Absent on the last page. Only of JSON.',
    },
    errors: ["query_timeout"],
    schemas: { query: listQuery, response: listResponse },
    exported: { name: "donations", columns: DONATION_COLUMNS },
    handle: ({ ctx, owner, query }) => {
      const filter = filterOf(query);
      const { page, page_size: pageSize } = query;
      const part = { offset: (page - 1) * pageSize, limit: pageSize };
      const readPage = async () =>
        (await listDonations(reads, owner, filter, part)).map(presentDonation);
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
            presentPages(listAllDonations(bulkLists, owner, filter), presentDonation),
          ),
      };
    },
  });

const refundEndpoints = (context: AppContext) =>
  writeEndpoints("/refund/donations", {
    tag: TAG,
    operationId: "refundDonation",
    summary: "Refund a donation",
    details:
      "Marks the donation as refunded and subtracts it from the totals. Nothing is reversed at the payment processor. " +
      "Refunding a donation again returns the first refund.",
    errors: ["record_not_found"],
    schemas: { item: refundBody, result: refundResponse },
    example: { id: "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e22", reason: "order cancelled" },
    checkItem: (item) => (isBlankId(item) ? "donation id is required" : null),
    accept: (body) => ({
      id: body.id,
      reason: body.reason ?? null,
      idempotencyKey: body.idempotency_key ?? null,
      metadata: body.metadata ?? {},
    }),
    write: (caller, items, isAtomic) =>
      refundDonations(context, accountModeOf(caller), items, isAtomic),
    present: async (caller, done) =>
      (await readDonations(context, caller, done)).map(({ donation, totalDonations }) => ({
        refunded_amount_cents: donation.amountCents,
        total_donations: totalDonations,
        refund_details: [presentDonation(donation)],
        refund_id: `refund-${shownIdOf(donation)}`,
      })),
  });

const subscribeEndpoint = (context: AppContext) =>
  keyEndpoint("post", "/charities/subscribe", {
    requestsPerSecond: REQUESTS_PER_SECOND,
    operationId: "subscribeToDonations",
    tag: TAG,
    summary: "Activate the donation subscription",
    details:
      "Adds the flat-rate and the metered donation item to the organization's subscription. Required once before live " +
      "donations; repeating it changes nothing. Send no body. A test key does not enable live donations.",
    errors: ["request_invalid"],
    schemas: { response: subscribeResponse },
    handle: async ({ owner }) => {
      await subscribeToDonations(context, owner);
      return {
        success: true,
        message:
          owner.mode === "live"
            ? "the donation subscription is active"
            : "the donation subscription is active in test mode; live donations need the production key",
      };
    },
  });

export const charityEndpoints = (context: AppContext) => [
  charitySearchEndpoint(context, "/charities/search", {
    requestsPerSecond: REQUESTS_PER_SECOND,
    tag: TAG,
    details:
      "Results come from the charity provider that the operator has chosen for the organization.",
  }),
  ...donateEndpoints(context),
  listOf(context),
  ...refundEndpoints(context),
  subscribeEndpoint(context),
];
