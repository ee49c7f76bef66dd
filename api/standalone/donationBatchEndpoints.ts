import {
  listDonationsByIds,
  listDonationsByKeys,
} from "../../modules/charities/donationBatches.sql.ts";
import { accountModeOf } from "../../modules/records/owner.rules.ts";
import { donateBatch } from "../../modules/charities/donateBatch.ts";
import { refundDonationBatch } from "../../modules/charities/refundDonationBatch.ts";
import type { Endpoint } from "../http/endpoint.ts";
import type { StandaloneContext } from "../context.ts";
import { batchEndpoint } from "./batchEndpoint.ts";
import { KEY_ERROR } from "./standaloneErrors.ts";
import { isBlankId } from "./clientFields.ts";
import {
  CHARITY_REQUIRED,
  DONATION_ID_REQUIRED,
  donationRequestOf,
  presentDonated,
  presentDonationRefund,
  refundRequestOf,
  donateBody,
  donateResponse,
  refundBody,
  refundResponse,
  EXAMPLES,
  TAG,
} from "./donationSchemas.ts";

const donateBatchEndpoint = (context: StandaloneContext): Endpoint =>
  batchEndpoint({
    path: "/charities/donate/batch",
    description: {
      operationId: "donateInBatch",
      tag: TAG,
      title: "RecordedDonation",
      summary: "Record donations with up to 1,000 requests in one",
      details:
        "Validates each charity once, and then records the items in one transaction and in their order. Each item is the " +
        "body of a single request, with an idempotency_key of its own: a known one, or that of an earlier item, returns " +
        "the original record. A batch validates at most 20 charities with a remote provider. Items for further charities have the " +
        "status 503; repeat the batch to validate more of them.",
      errors: [
        KEY_ERROR,
        {
          code: "internal_error",
          when: "The catalogue of charities failed, and nothing was recorded. After the message `internal server error` the items may be recorded: repeat the batch with the same keys.",
          example: "charity search failed",
        },
      ],
      exampleRejection: CHARITY_REQUIRED,
    },
    schemas: { item: donateBody, result: donateResponse },
    examples: EXAMPLES.donate,
    accept: (item, caller) => donationRequestOf(caller, item),
    write: (caller, items, isAtomic) => donateBatch(context, caller, items, isAtomic),
    present: async (caller, done) => {
      const keys = done.flatMap(({ donation, idempotencyKey }) =>
        donation === null ? (idempotencyKey ?? []) : [],
      );
      const originals =
        keys.length === 0 ? [] : await listDonationsByKeys(context.db, accountModeOf(caller), keys);
      const byKey = new Map(originals.map((original) => [original.idempotencyKey, original]));
      return done.map(({ donation, idempotencyKey, totalDonations }) => {
        const recorded = donation ?? byKey.get(idempotencyKey);
        if (!recorded) {
          throw new Error("An item was not recorded, and its idempotency key is unknown.");
        }
        return presentDonated(recorded, totalDonations);
      });
    },
  });

const refundBatchEndpoint = (context: StandaloneContext): Endpoint =>
  batchEndpoint({
    path: "/refund/donations/batch",
    description: {
      operationId: "refundDonationsInBatch",
      tag: TAG,
      title: "DonationRefund",
      summary: "Refund donations with up to 1,000 requests in one",
      details:
        "Refunds the items in one transaction and in their order. Each item is the body of a single request, with an " +
        "idempotency_key of its own. Refunding a donation again returns the first refund.",
      errors: [KEY_ERROR],
      exampleRejection: "donation not found",
    },
    schemas: { item: refundBody, result: refundResponse },
    examples: EXAMPLES.refund,
    checkItem: (item) => (isBlankId(item) ? DONATION_ID_REQUIRED : null),
    accept: refundRequestOf,
    write: (caller, items, isAtomic) =>
      refundDonationBatch(context, accountModeOf(caller), items, isAtomic),
    present: async (caller, done) => {
      const donations = await listDonationsByIds(
        context.db,
        accountModeOf(caller),
        done.map(({ donationId }) => donationId),
      );
      const byId = new Map(donations.map((donation) => [donation.id, donation]));
      return done.map(({ donationId, totalDonations }) => {
        const donation = byId.get(donationId);
        if (!donation) {
          throw new Error(`Donation ${donationId} was deleted in the meantime.`);
        }
        return presentDonationRefund(donation, totalDonations);
      });
    },
  });

/** The endpoints that take many donations or refunds of donations in one request. */
export const donationBatchEndpoints = (context: StandaloneContext): readonly Endpoint[] => [
  donateBatchEndpoint(context),
  refundBatchEndpoint(context),
];
