import { z } from "zod";
import { ein as einField } from "../../modules/charities/charities.rules.ts";
import {
  blankAsNull,
  emptyAsNull,
  metadata,
  recordId,
  longText,
  shortText,
  textOrNumber,
} from "../../modules/records/fields.rules.ts";
import { mustBe } from "../../runtime/describeIssues.rules.ts";
import { donationJson } from "../../modules/charities/donations.rules.ts";
import { MAXIMUM_CENTS } from "../../modules/records/money.rules.ts";
import { currencyField, page, pageSize, total } from "../endpoints/charities.ts";
import { attribution, idempotencyKey } from "../../modules/registrations/registrations.rules.ts";
import { firstDay, lastDay } from "../http/listPages.ts";
import { bodyObject, responseObject, optional } from "../http/parseRequest.ts";
import { oneAttribution, withoutAttribution, reasonField, recordFields } from "./clientFields.ts";

const AMOUNT_MUST_BE = `an integer from 1 to ${MAXIMUM_CENTS}`;

export const donateBody = bodyObject({
  amount_cents: z
    .int({ error: mustBe(AMOUNT_MUST_BE), abort: true })
    .min(1, `must be ${AMOUNT_MUST_BE}`)
    .max(MAXIMUM_CENTS, `must be ${AMOUNT_MUST_BE}`)
    .meta({ description: "US cents.", examples: [500] }),
  currency: currencyField(),
  ein: optional(
    einField(),
    "EIN, with or without the dash. Empty is the same as omitted.",
    "53-0196605",
  ),
  nonprofit_id: optional(
    textOrNumber(200).transform(emptyAsNull),
    "The charity's id from a search. Empty is the same as omitted.",
  ),
  charity_name: optional(
    shortText().transform(blankAsNull),
    "Defaults to the charity's own name, which the donation's certificate always shows. Blank is the same as omitted.",
  ),
  ...recordFields,
}).meta({ id: "NewDonation", description: "One of ein and nonprofit_id is required." });

const donationCount = () => total("The organization's donations that are not refunded.");

export const donateResponse = responseObject("RecordedDonation", {
  donation_id: z.string(),
  ...donationJson.pick({ amount_cents: true, charity_name: true, ein: true, nonprofit_id: true })
    .shape,
  total_donations: donationCount(),
  donation_details: z.array(donationJson),
});

export const listQuery = z
  .object({
    attribution: optional(attribution(), "Only donations with this attribution.", "newsletter"),
    without_attribution: withoutAttribution(),
    metadata_key: optional(shortText(), "Only donations whose metadata has this key."),
    metadata_value: optional(
      longText(),
      "Only donations whose metadata_key has this value: a string as it is, a number as its digits, true or false. Requires metadata_key.",
    ),
    start_date: firstDay(),
    end_date: lastDay(),
    page: page(),
    page_size: pageSize(100),
  })
  .refine(...oneAttribution("attribution"))
  .refine(
    ({ metadata_key, metadata_value }) =>
      metadata_value === undefined || metadata_key !== undefined,
    { path: ["metadata_value"], error: "requires metadata_key" },
  );

export const listResponse = responseObject("DonationPage", {
  total_items: total("Number of matches on all pages."),
  total_pages: total("0 if nothing matches."),
  page: z.int().min(1),
  page_size: z.int().min(1),
  donations: z.array(donationJson),
});

export const subscribeResponse = responseObject("DonationSubscription", {
  success: z.boolean(),
  message: z.string(),
});

export const refundBody = bodyObject({
  id: recordId().describe("The donation's id."),
  reason: reasonField,
  idempotency_key: optional(idempotencyKey(), "Belongs to the donation that it is first used for."),
  metadata: optional(metadata(), "Stored with the refund."),
}).meta({ id: "NewDonationRefund" });

export const refundResponse = responseObject("DonationRefund", {
  refunded_amount_cents: z.int().min(1),
  total_donations: donationCount(),
  refund_details: z.array(donationJson),
  refund_id: z.string().meta({ examples: ["refund-0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e22"] }),
});

export const TAG = "charities";
