import { z } from "zod";
import type { Answer, Service, StandaloneKey } from "../../client.ts";
import { expect } from "../../expectations.ts";
import { charity, donation } from "../shapes.ts";

/** The American Red Cross, which providers of US charities know. */
export const EIN = "53-0196605";
/** An EIN that no charity has: the IRS assigns no prefix 00. */
export const UNKNOWN_EIN = "00-0000000";

export const digitsOf = (ein: string): string => ein.replaceAll(/\D/gu, "");

const donated = z.looseObject({
  donation_id: z.string().min(1),
  amount_cents: z.int(),
  charity_name: z.string().min(1),
  ein: z.string(),
  nonprofit_id: z.string(),
  total_donations: z.int().min(0),
  donation_details: z.tuple([donation]),
});

/** Returns the body of a response to a donation, whose parts must agree. */
export const readDonated = (answer: Answer) => {
  const body = expect.body(answer, donated);
  const [record] = body.donation_details;
  const { donation_id: id, amount_cents, charity_name, ein, nonprofit_id } = body;
  expect.fields(record, { id, amount_cents, charity_name, ein, nonprofit_id });
  return { ...body, record };
};

const donationList = z.looseObject({
  total_items: z.int().min(0),
  total_pages: z.int().min(0),
  page: z.int().min(1),
  page_size: z.int().min(1),
  donations: z.array(donation),
});

const searchResult = z.looseObject({
  total_items: z.int().min(0),
  total_pages: z.int().min(0),
  charities: z.array(charity),
});

type Query = Readonly<Record<string, string>>;

export const donationsOf = (service: Service) => {
  const listDonations = async (query: Query = {}, key: StandaloneKey = "test") =>
    expect.body(await service.organization(key).get("/charities/donations", query), donationList);
  return {
    listDonations,
    /** Expects a list to have exactly the donations with these ids, in any order. */
    expectIds: async (query: Query, ids: readonly string[]): Promise<void> => {
      const body = await listDonations({ page_size: "100", ...query });
      const what = JSON.stringify(query);
      const listed = body.donations.map(({ id }) => id);
      expect.equal(`ids in GET /charities/donations ${what}`, listed.toSorted(), ids.toSorted());
      expect.equal(`total_items with ${what}`, body.total_items, ids.length);
    },
    donate: async (body: Readonly<Record<string, unknown>> = {}, key: StandaloneKey = "test") => {
      const gift = { amount_cents: 250, ein: EIN, ...body };
      return readDonated(await service.organization(key).post("/charities/donate", gift));
    },
    refundDonation: (body: unknown, key: StandaloneKey = "test"): Promise<Answer> =>
      service.organization(key).post("/refund/donations", body),
    search: async (query: Query = {}) =>
      expect.body(await service.organization().get("/charities/search", query), searchResult),
  };
};
