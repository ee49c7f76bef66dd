import { z } from "zod";
import type { ExecutionContext } from "ava";
import { readDonationTotals } from "../../../db/charities/donationTotals.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import type { DonationApi } from "./donationSetup.ts";
import { startDonationApi } from "./donationSetup.ts";

const test = testWithDatabase();

type Scene = DonationApi & {
  readonly clock: ReturnType<typeof createMovableClock>;
  readonly donate: (amountCents: number) => Promise<string>;
  readonly refund: (body: Record<string, unknown>) => ReturnType<DonationApi["call"]>;
};

const stage = async (t: ExecutionContext<DatabaseContext>): Promise<Scene> => {
  const clock = createMovableClock("2026-03-10T12:00:00.000Z");
  const api = await startDonationApi(t, { clock });
  return {
    ...api,
    clock,
    donate: async (amountCents) => {
      const { body } = await api.call("POST", "/charities/donate", {
        key: api.test,
        body: { amount_cents: amountCents, ein: "530196605" },
      });
      return String(body["donation_id"]);
    },
    refund: (body) => api.call("POST", "/refund/donations", { key: api.test, body }),
  };
};

test("a refunded donation stays in the list and leaves the totals", async (t) => {
  const { donate, refund, call, test: key } = await stage(t);
  await donate(300);
  const id = await donate(500);

  const { status, body } = await refund({ id, reason: "cancelled", metadata: { a: 1 } });

  t.is(status, 200);
  t.like(body, { refunded_amount_cents: 500, total_donations: 1, refund_id: `refund-${id}` });
  const [details] = z.array(z.looseObject({})).parse(body["refund_details"]);
  t.like(details, { id, amount_cents: 500, refunded: true });
  const list = await call("GET", "/charities/donations", { key });
  t.is(list.body["total_items"], 2);
  t.deepEqual(
    z
      .array(z.looseObject({ refunded: z.boolean() }))
      .parse(list.body["donations"])
      .map(({ refunded }) => refunded),
    [true, false],
  );
});

test("a refund in a later month lowers the total of the donation's month", async (t) => {
  const { donate, refund, clock, accountId } = await stage(t);
  const { db } = t.context;
  const owner = { accountId, mode: "test" } as const;
  const id = await donate(500);
  clock.set("2026-04-02T00:00:00.000Z");
  await donate(200);

  await refund({ id });

  const april = await readDonationTotals(db, owner, new Date("2026-04-02T00:00:00.000Z"));
  const march = await readDonationTotals(db, owner, new Date("2026-03-02T00:00:00.000Z"));
  t.deepEqual(april, {
    all: { count: 1, amountCents: 200 },
    month: { count: 1, amountCents: 200 },
  });
  t.deepEqual(march.month, { count: 0, amountCents: 0 });
});

test("a second refund returns the first one and changes no total", async (t) => {
  const { donate, refund } = await stage(t);
  await donate(300);
  const id = await donate(500);
  const first = await refund({ id });
  const second = await refund({ id, reason: "again" });
  t.is(second.status, 200);
  t.deepEqual(second.body, first.body);
  t.is(first.headers.get("Idempotent-Replayed"), null);
  t.is(second.headers.get("Idempotent-Replayed"), "true");
});

test("a key belongs to the donation that it was first used for, and refunds no other", async (t) => {
  const { donate, refund, call, test: key } = await stage(t);
  const one = await donate(300);
  const other = await donate(500);
  const first = await refund({ id: one, idempotency_key: "k" });
  const again = await refund({ id: one, idempotency_key: "k" });
  t.deepEqual(again.body, first.body);
  t.is((await refund({ id: one, idempotency_key: "later" })).status, 200);
  for (const known of ["k", "later"]) {
    const second = await refund({ id: other, idempotency_key: known });
    t.is(second.status, 400);
    t.deepEqual(second.body, {
      error: "idempotency_key: belongs to the refund of another donation",
    });
  }
  const list = await call("GET", "/charities/donations", { key });
  t.deepEqual(
    z
      .array(z.looseObject({ id: z.string(), refunded: z.boolean() }))
      .parse(list.body["donations"])
      .map(({ id, refunded }) => [id, refunded]),
    [
      [other, false],
      [one, true],
    ],
  );
});

test("concurrent refunds of one donation refund it once", async (t) => {
  const { donate, refund } = await stage(t);
  await donate(300);
  const id = await donate(500);
  const responses = await Promise.all(
    Array.from({ length: 20 }, (_, index) => refund({ id, idempotency_key: `k${index % 4}` })),
  );
  t.deepEqual(new Set(responses.map(({ status }) => status)), new Set([200]));
  t.is(new Set(responses.map(({ body }) => JSON.stringify(body))).size, 1);
  t.is(responses.filter(({ headers }) => !headers.has("Idempotent-Replayed")).length, 1);
});

test("concurrent refunds of several donations with one key refund one of them", async (t) => {
  const { donate, refund, call, test: key } = await stage(t);
  const ids = [await donate(100), await donate(200), await donate(300)];
  const responses = await Promise.all(ids.map((id) => refund({ id, idempotency_key: "k" })));
  t.is(responses.filter(({ status }) => status === 200).length, 1);
  t.is(responses.filter(({ status }) => status === 400).length, 2);
  const { body } = await call("GET", "/charities/donations", { key });
  const refunded = z.array(z.looseObject({ refunded: z.boolean() })).parse(body["donations"]);
  t.is(refunded.filter((donation) => donation.refunded).length, 1);
  t.is(responses.find(({ status }) => status === 200)?.body["total_donations"], 2);
});

test("a donation of another organization or mode is not found", async (t) => {
  const { donate, call, live } = await stage(t);
  const { apiKeyTest: other } = await createTestOrganization(t.context.db);
  const id = await donate(100);
  for (const [key, wanted] of [
    [live, id],
    [other, id],
    [live, crypto.randomUUID()],
    [live, "not-a-uuid"],
  ] as const) {
    const { status, body } = await call("POST", "/refund/donations", { key, body: { id: wanted } });
    t.is(status, 404);
    t.deepEqual(body, { error: "donation not found" });
  }
});

test("a refund without an id is a 400 that says so", async (t) => {
  const { refund } = await stage(t);
  for (const body of [{}, { id: "" }, { id: null }]) {
    const response = await refund(body);
    t.is(response.status, 400);
    t.deepEqual(response.body, { error: "donation id is required" });
  }
  t.is((await refund({ id: 7 })).status, 400);
});
