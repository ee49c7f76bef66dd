import { z } from "zod";
import { atOnce, checksOf, dayOf, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import type { Service } from "../../client.ts";
import {
  expectBody,
  expectEqual,
  expectError,
  expectFields,
  expectStatus,
  NO_DATES,
  NO_OBJECTS,
  queriesOf,
  rejects,
} from "../../expectations.ts";
import { donation } from "../shapes.ts";
import { donate, listDonations, refundDonation } from "./donations.ts";

const PATH = "/charities/donations";
const { contract, decision } = checksOf(`GET ${PATH}`);
const refunds = checksOf("POST /refund/donations");

const refunded = z.looseObject({
  refunded_amount_cents: z.int(),
  total_donations: z.int().min(0),
  refund_details: z.array(donation).length(1),
  refund_id: z.string(),
});

const expectIds = async (
  service: Service,
  parameters: Readonly<Record<string, string>>,
  ids: readonly string[],
): Promise<void> => {
  const body = await listDonations(service, { page_size: "100", ...parameters });
  const what = JSON.stringify(parameters);
  expectEqual(
    `ids in GET ${PATH} ${what}`,
    body.donations.map(({ id }) => id).toSorted(),
    ids.toSorted(),
  );
  expectEqual(`total_items with ${what}`, body.total_items, ids.length);
};

export const donationListChecks: readonly Check[] = [
  contract("has pages of 20 by default", async (service) => {
    await donate(service);
    const body = await listDonations(service);
    expectFields(body, { page: 1, page_size: 20, total_pages: Math.ceil(body.total_items / 20) });
    expectEqual("donations", body.donations.length, Math.min(20, body.total_items));
  }),
  contract("lists a donation with what its creation returned", async (service) => {
    const attribution = unique("listed");
    const { record } = await donate(service, {
      attribution,
      metadata: { a: "b" },
      idempotency_key: unique("key"),
    });
    const { donations } = await listDonations(service, { attribution });
    expectEqual("donations", donations.length, 1);
    const { created_at: _at, ...fields } = z.object(donation.shape).parse(record);
    expectFields(donations[0] ?? {}, fields);
  }),
  contract("has no pages if nothing matches", async (service) => {
    const body = await listDonations(service, { attribution: unique("none") });
    expectFields(body, { total_items: 0, total_pages: 0, page: 1, donations: [] });
  }),
  contract("pages have every donation once", async (service) => {
    const attribution = unique("pages");
    const ids = await atOnce(7, async () => (await donate(service, { attribution })).donation_id);
    const seen: string[] = [];
    for (const [page, length] of [
      ["1", 3],
      ["2", 3],
      ["3", 1],
      ["4", 0],
      ["1000000", 0],
    ] as const) {
      const body = await listDonations(service, { attribution, page_size: "3", page });
      expectEqual(`donations on page ${page}`, body.donations.length, length);
      expectFields(body, { total_items: 7, total_pages: 3, page: Number(page), page_size: 3 });
      seen.push(...body.donations.map(({ id }) => id));
    }
    expectEqual("ids", seen.toSorted(), ids.toSorted());
  }),
  contract("page_size goes to 100, and never further", async (service) => {
    expectEqual("page_size", (await listDonations(service, { page_size: "100" })).page_size, 100);
    const answer = await service.organization().get(`${PATH}?page_size=101`);
    expectStatus(answer, 200, 400);
    if (answer.status === 200) {
      expectEqual("page_size", (await listDonations(service, { page_size: "101" })).page_size, 100);
    }
  }),
  contract(
    "a page or page_size that is no positive integer is a 400",
    rejects(PATH, { queries: queriesOf(["page", "page_size"], ["0", "-1", "1.5", "x"]) }),
  ),
  contract("start_date and end_date are inclusive", async (service) => {
    const attribution = unique("dates");
    const { record } = await donate(service, { attribution });
    const day = (later: number): string => dayOf(record.created_at, later);
    for (const range of [
      { start_date: day(0) },
      { end_date: day(0) },
      { start_date: day(0), end_date: day(0) },
    ]) {
      await expectIds(service, { attribution, ...range }, [record.id]);
    }
    for (const range of [{ start_date: day(1) }, { end_date: day(-1) }]) {
      await expectIds(service, { attribution, ...range }, []);
    }
  }),
  contract(
    "a malformed date is a 400",
    rejects(PATH, { queries: queriesOf(["start_date", "end_date"], [...NO_DATES, "20260101"]) }),
  ),
  decision("a range that ends before it begins is empty", async (service) => {
    await expectIds(service, { start_date: "2026-02-01", end_date: "2026-01-01" }, []);
  }),
  contract(
    "metadata_key selects donations that have the key, metadata_value those with the value",
    async (service) => {
      const key = unique("k");
      const one = await donate(service, { metadata: { [key]: "one" } });
      const two = await donate(service, { metadata: { [key]: "two", other: "one" } });
      await donate(service, { metadata: { other: key } });
      await expectIds(service, { metadata_key: key }, [one.donation_id, two.donation_id]);
      await expectIds(service, { metadata_key: key, metadata_value: "two" }, [two.donation_id]);
      await expectIds(service, { metadata_key: key, metadata_value: "three" }, []);
      await expectIds(service, { metadata_key: unique("none") }, []);
    },
  ),
  contract(
    "metadata_value without metadata_key is a 400",
    rejects(PATH, { queries: ["?metadata_value=x"] }),
  ),
  contract("refunded donations stay, marked", async (service) => {
    const attribution = unique("refunded");
    const { donation_id: id } = await donate(service, { attribution });
    expectStatus(await refundDonation(service, { id }), 200);
    const { donations } = await listDonations(service, { attribution });
    expectEqual(
      "refunded",
      donations.map((item) => item.refunded),
      [true],
    );
  }),
  contract("another organization's donations are not listed", async (service) => {
    const attribution = unique("foreign");
    await donate(service, { attribution }, "otherTest");
    await expectIds(service, { attribution }, []);
    const { donations } = await listDonations(service, { attribution }, "otherTest");
    expectEqual("donations of the other organization", donations.length, 1);
  }),
  contract("test donations are not listed with the production key", async (service) => {
    const attribution = unique("mode");
    await donate(service, { attribution });
    expectEqual(
      "total_items",
      (await listDonations(service, { attribution }, "prod")).total_items,
      0,
    );
  }),
];

export const donationRefundChecks: readonly Check[] = [
  refunds.contract("marks the donation and lowers the count", async (service) => {
    const { record, total_donations: total } = await donate(service, {
      amount_cents: 321,
      attribution: unique("refund"),
    });
    const answer = await refundDonation(service, {
      id: record.id,
      reason: "mistake",
      metadata: { a: 1 },
      idempotency_key: unique("key"),
    });
    const body = expectBody(answer, refunded);
    expectFields(body, {
      refunded_amount_cents: 321,
      total_donations: total - 1,
      refund_id: `refund-${record.id}`,
    });
    const { id, attribution } = record;
    expectFields(body.refund_details[0] ?? {}, { id, refunded: true, attribution });
  }),
  refunds.contract("an unknown donation is a 404", async (service) => {
    for (const id of [crypto.randomUUID(), "unknown", "1", "x".repeat(300)]) {
      expectError(await refundDonation(service, { id }), 404);
    }
  }),
  refunds.contract("another organization's donation is a 404", async (service) => {
    const { donation_id: id } = await donate(service, {}, "otherTest");
    expectError(await refundDonation(service, { id }), 404);
  }),
  refunds.contract(
    "a missing id is a 400",
    rejects("/refund/donations", {
      bodies: [{}, { reason: "x" }, { id: null }, { id: "" }, { id: {} }, ...NO_OBJECTS],
    }),
  ),
  refunds.contract("wrong types of the optional fields are a 400", async (service) => {
    const { donation_id: id } = await donate(service);
    for (const body of [
      { reason: {} },
      { metadata: "x" },
      { metadata: [] },
      { idempotency_key: {} },
    ]) {
      expectError(await refundDonation(service, { id, ...body }), 400);
    }
  }),
  refunds.contract(
    "an idempotency_key of a refunded donation still returns that donation",
    async (service) => {
      const body = { idempotency_key: unique("key") };
      const { donation_id: id } = await donate(service, body);
      expectStatus(await refundDonation(service, { id }), 200);
      expectEqual("donation_id", (await donate(service, body)).donation_id, id);
    },
  ),
  refunds.decision("unknown fields and null are ignored", async (service) => {
    const { donation_id: id } = await donate(service);
    expectBody(
      await refundDonation(service, { id, count: 1, foo: 1, reason: null, metadata: null }),
      refunded,
    );
  }),
];
