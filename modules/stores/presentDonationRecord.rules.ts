import { z } from "zod";
import { formatEin } from "../charities/charities.rules.ts";
import type { Donation, DonationCustomer } from "../charities/donations.rules.ts";
import { centsToDollars } from "../records/money.rules.ts";
import { shownIdOf } from "../records/recordIds.rules.ts";

/*
 * A store's donation as clients see it: in lists and files.
 */

export const donationRecordJson = z
  .strictObject({
    id: z.string().meta({ examples: ["0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e22"] }),
    amount: z.number().meta({ description: "US dollars." }),
    amount_cents: z.int().min(1),
    currency: z.literal("USD"),
    charity_name: z.string(),
    ein: z.string().meta({ description: "Empty if the charity has none." }),
    nonprofit_id: z.string().meta({ description: "The charity's id at its provider." }),
    customer_name: z.string().meta({ description: "Empty if none was given." }),
    customer_email: z.string(),
    customer_id: z.string(),
    order_id: z.string(),
    refunded: z.boolean(),
    created_at: z.iso.datetime(),
  })
  .meta({ id: "DonationRecord" });

/** The columns of CSV. */
export const DONATION_RECORD_COLUMNS = Object.keys(donationRecordJson.shape);

export const presentDonationRecord = (
  donation: Pick<
    Donation,
    "id" | "importedId" | "amountCents" | "ein" | "nonprofitId" | "charityName" | "refunded"
  > &
    DonationCustomer & { readonly position: string },
): z.output<typeof donationRecordJson> => ({
  id: shownIdOf(donation),
  amount: centsToDollars(donation.amountCents),
  amount_cents: donation.amountCents,
  currency: "USD",
  charity_name: donation.charityName,
  ein: donation.ein === null ? "" : formatEin(donation.ein),
  nonprofit_id: donation.nonprofitId,
  customer_name: donation.customerName ?? "",
  customer_email: donation.customerEmail ?? "",
  customer_id: donation.customerId ?? "",
  order_id: donation.orderId ?? "",
  refunded: donation.refunded,
  created_at: donation.position,
});
