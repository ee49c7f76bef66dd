import { z } from "zod";
import { atOnce, checksOf, dayOf, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import { expect, NO_DATES, NO_OBJECTS, queriesOf, rejects } from "../../expectations.ts";
import { donation } from "../shapes.ts";
import { donationsOf } from "./donations.ts";

const PATH = "/charities/donations";
const { contract } = checksOf(`GET ${PATH}`, donationsOf);
const refunds = checksOf("POST /refund/donations", donationsOf);

const refunded = z.looseObject({
  refunded_amount_cents: z.int(),
  total_donations: z.int().min(0),
  refund_details: z.tuple([donation]),
  refund_id: z.string(),
});

export const donationListChecks: readonly Check[] = [
  contract("has pages of 20 by default", async (t) => {
    await t.donate();
    const body = await t.listDonations();
    expect.fields(body, { page: 1, page_size: 20, total_pages: Math.ceil(body.total_items / 20) });
    expect.equal("donations", body.donations.length, Math.min(20, body.total_items));
  }),
  contract("lists a donation with what its creation returned", async (t) => {
    const attribution = unique("listed");
    const given = { attribution, metadata: { a: "b" }, idempotency_key: unique("key") };
    const { record } = await t.donate(given);
    const { donations } = await t.listDonations({ attribution });
    expect.equal("donations", donations.length, 1);
    const { created_at: _at, ...fields } = z.object(donation.shape).parse(record);
    expect.fields(donations[0] ?? {}, fields);
  }),
  contract("has no pages if nothing matches", async (t) => {
    const body = await t.listDonations({ attribution: unique("none") });
    expect.fields(body, { total_items: 0, total_pages: 0, page: 1, donations: [] });
  }),
  contract("pages have every donation once", async (t) => {
    const attribution = unique("pages");
    const ids = await atOnce(7, async () => (await t.donate({ attribution })).donation_id);
    const seen: string[] = [];
    for (const [page, length] of [
      ["1", 3],
      ["2", 3],
      ["3", 1],
      ["4", 0],
      ["1000000", 0],
    ] as const) {
      const body = await t.listDonations({ attribution, page_size: "3", page });
      expect.equal(`donations on page ${page}`, body.donations.length, length);
      expect.fields(body, { total_items: 7, total_pages: 3, page: Number(page), page_size: 3 });
      seen.push(...body.donations.map(({ id }) => id));
    }
    expect.equal("ids", seen.toSorted(), ids.toSorted());
  }),
  contract("page_size goes to 100, and never further", async (t) => {
    expect.equal("page_size", (await t.listDonations({ page_size: "100" })).page_size, 100);
    const answer = await t.service.organization().get(PATH, { page_size: "101" });
    expect.status(answer, 200, 400);
    if (answer.status === 200) {
      expect.equal("page_size", (await t.listDonations({ page_size: "101" })).page_size, 100);
    }
  }),
  contract(
    "a page or page_size that is no positive integer is a 400",
    rejects(PATH, { queries: queriesOf(["page", "page_size"], ["0", "-1", "1.5", "x"]) }),
  ),
  contract("start_date and end_date are inclusive", async (t) => {
    const attribution = unique("dates");
    const { record } = await t.donate({ attribution });
    const day = (later: number): string => dayOf(record.created_at, later);
    for (const range of [
      { start_date: day(0) },
      { end_date: day(0) },
      { start_date: day(0), end_date: day(0) },
    ]) {
      await t.expectIds({ attribution, ...range }, [record.id]);
    }
    for (const range of [{ start_date: day(1) }, { end_date: day(-1) }]) {
      await t.expectIds({ attribution, ...range }, []);
    }
  }),
  contract(
    "a malformed date is a 400",
    rejects(PATH, { queries: queriesOf(["start_date", "end_date"], [...NO_DATES, "20260101"]) }),
  ),
  contract("metadata_key selects by the key, metadata_value by its value", async (t) => {
    const key = unique("k");
    const one = await t.donate({ metadata: { [key]: "one" } });
    const two = await t.donate({ metadata: { [key]: "two", other: "one" } });
    await t.donate({ metadata: { other: key } });
    await t.expectIds({ metadata_key: key }, [one.donation_id, two.donation_id]);
    await t.expectIds({ metadata_key: key, metadata_value: "two" }, [two.donation_id]);
    await t.expectIds({ metadata_key: key, metadata_value: "three" }, []);
    await t.expectIds({ metadata_key: unique("none") }, []);
  }),
  contract(
    "metadata_value without metadata_key is a 400",
    rejects(PATH, { queries: ["?metadata_value=x"] }),
  ),
  contract("refunded donations stay, marked", async (t) => {
    const attribution = unique("refunded");
    const { donation_id: id } = await t.donate({ attribution });
    expect.status(await t.refundDonation({ id }), 200);
    const { donations } = await t.listDonations({ attribution });
    const marks = donations.map((item) => item.refunded);
    expect.equal("refunded", marks, [true]);
  }),
  contract("another organization's donations are not listed", async (t) => {
    const attribution = unique("foreign");
    await t.donate({ attribution }, "otherTest");
    await t.expectIds({ attribution }, []);
    const { donations } = await t.listDonations({ attribution }, "otherTest");
    expect.equal("donations of the other organization", donations.length, 1);
  }),
  contract("test donations are not listed with the production key", async (t) => {
    const attribution = unique("mode");
    await t.donate({ attribution });
    expect.equal("total_items", (await t.listDonations({ attribution }, "prod")).total_items, 0);
  }),
];

export const donationRefundChecks: readonly Check[] = [
  refunds.contract("marks the donation and lowers the count", async (t) => {
    const gift = { amount_cents: 321, attribution: unique("refund") };
    const { record, total_donations: total } = await t.donate(gift);
    const given = { reason: "mistake", metadata: { a: 1 }, idempotency_key: unique("key") };
    const answer = await t.refundDonation({ id: record.id, ...given });
    const body = expect.body(answer, refunded);
    const amounts = { refunded_amount_cents: 321, total_donations: total - 1 };
    expect.fields(body, { ...amounts, refund_id: `refund-${record.id}` });
    const { id, attribution } = record;
    expect.fields(body.refund_details[0], { id, refunded: true, attribution });
  }),
  refunds.contract("an unknown donation is a 404", async (t) => {
    for (const id of [crypto.randomUUID(), "unknown", "1", "x".repeat(300)]) {
      expect.error(await t.refundDonation({ id }), 404);
    }
  }),
  refunds.contract("another organization's donation is a 404", async (t) => {
    const { donation_id: id } = await t.donate({}, "otherTest");
    expect.error(await t.refundDonation({ id }), 404);
  }),
  refunds.contract(
    "a missing id is a 400",
    rejects("/refund/donations", {
      bodies: [{}, { reason: "x" }, { id: null }, { id: "" }, { id: {} }, ...NO_OBJECTS],
    }),
  ),
  refunds.contract("wrong types of the optional fields are a 400", async (t) => {
    const { donation_id: id } = await t.donate();
    const wrong = [{ reason: {} }, { metadata: "x" }, { metadata: [] }, { idempotency_key: {} }];
    for (const body of wrong) {
      expect.error(await t.refundDonation({ id, ...body }), 400);
    }
  }),
  refunds.contract("a refunded donation's idempotency_key still returns it", async (t) => {
    const body = { idempotency_key: unique("key") };
    const { donation_id: id } = await t.donate(body);
    expect.status(await t.refundDonation({ id }), 200);
    expect.equal("donation_id", (await t.donate(body)).donation_id, id);
  }),
  refunds.decision("unknown fields and null are ignored", async (t) => {
    const { donation_id: id } = await t.donate();
    const body = { id, count: 1, foo: 1, reason: null, metadata: null };
    expect.body(await t.refundDonation(body), refunded);
  }),
];
