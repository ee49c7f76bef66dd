import { z } from "zod";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import { systemClock } from "../../domain/clock.ts";
import type { EventType } from "../../domain/events/events.ts";
import { recordEvent } from "../../services/events/recordEvent.ts";
import { listFailedMeterEventIds } from "../../db/billing/meterEventReports.ts";
import { waiveUsage } from "../../services/billing/waiveUsage.ts";
import { simulateAllocated } from "../../providers/planting/simulated/simulatedFacts.ts";
import { recordPlantingFacts } from "../../services/planting/orders/recordPlantingFacts.ts";
import { idIn } from "../api/contract.ts";
import { setUpBilling } from "../billing/billingSetup.ts";
import { RED_CROSS, startDonationApi } from "../charities/donations/donationSetup.ts";
import { readJson, runImpact } from "../cli/runImpact.ts";
import { setUpPlanting } from "../planting/setUpPlanting.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { readEvents, refunded, untilComplete } from "./readEvents.ts";

const test = testWithDatabase();

test("registrations, refunds and donations are events, oldest first, with their data", async (t) => {
  const { call, test: key, accountId } = await startDonationApi(t);
  const registered = await call("POST", "/plant/trees", {
    key,
    body: { count: 3, idempotency_key: "order-1", attribution: "a", metadata: { b: [1] } },
  });
  const id = idIn(registered.body, "tree");
  await call("POST", "/refund/trees", { key, body: { id, count: 1, reason: "returned" } });
  await call("POST", "/refund/trees", { key, body: { id, count: 2 } });
  const donated = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 500, ein: "530196605", metadata: { c: 2 } },
  });
  t.is(donated.status, 200);
  const donationId = String(donated.body["donation_id"]);
  for (let attempt = 0; attempt < 2; attempt += 1) {
    await call("POST", "/refund/donations", { key, body: { id: donationId, reason: "error" } });
  }

  const events = await readEvents(
    { db: t.context.db, clock: systemClock },
    { accountId, mode: "test" },
  );
  const donation = {
    donation_id: donationId,
    amount_cents: 500,
    currency: "USD",
    ein: RED_CROSS.ein,
    nonprofit_id: RED_CROSS.nonprofit_id,
    charity_name: RED_CROSS.name,
  };
  t.deepEqual(
    events.map(({ type, data }) => [type, data]),
    [
      [
        "registration.created",
        {
          registration_id: id,
          kind: "tree",
          count: 3,
          fractional_count: 0,
          idempotency_key: "order-1",
          attribution: "a",
          metadata: { b: [1] },
        },
      ],
      [
        "registration.refunded",
        { registration_id: id, kind: "tree", count: 1, remaining_count: 2, reason: "returned" },
      ],
      [
        "registration.refunded",
        { registration_id: id, kind: "tree", count: 2, remaining_count: 0, reason: "" },
      ],
      [
        "donation.created",
        { ...donation, idempotency_key: "", attribution: "", metadata: { c: 2 } },
      ],
      ["donation.refunded", { ...donation, reason: "error" }],
    ],
  );
});

const REFUSED = {
  kind: "respond",
  path: "/v1/billing/meter_events",
  status: 400,
  body: { error: { type: "invalid_request_error", message: "refused" } },
} as const;

test("usage that fails and is retried is two events, and waiving it is none", async (t) => {
  const { deps, double, stream, register, pass, drain, retryFailed } = await setUpBilling(t);
  const types: readonly EventType[] = ["usage.failed", "usage.recovered"];
  const read = async () => {
    const events = await readEvents(deps, stream, { types });
    return events.map(({ type, data }) => [type, "count" in data ? data.count : null]);
  };
  double.control.addFault(REFUSED);
  await register(2);
  await drain();
  t.deepEqual(await read(), [["usage.failed", 2]]);
  await retryFailed();
  await drain();
  const recovered = [
    ["usage.failed", 2],
    ["usage.recovered", 2],
  ];
  t.deepEqual(await read(), recovered);

  pass(10);
  double.control.addFault(REFUSED);
  await register(5);
  await drain();
  for (const eventId of await listFailedMeterEventIds(deps.db, { accountId: stream.accountId })) {
    await waiveUsage(deps, eventId, "invoiced by hand");
  }
  t.deepEqual(await read(), [...recovered, ["usage.failed", 5]]);
});

test("a planting order that reaches a milestone is an event, and a repeated report is none", async (t) => {
  const { db } = t.context;
  const setup = await setUpPlanting(db, { partner: "manual" });
  await setup.register(10);
  await setup.createOrders();
  await setup.place();
  const [order] = await setup.orders();
  if (!order) {
    throw new Error("There is an order.");
  }
  const fact = simulateAllocated(order, setup.clock.now());
  for (let attempt = 0; attempt < 2; attempt += 1) {
    await recordPlantingFacts(setup.deps, order.id, [fact], "operator");
  }
  const owner: AccountMode = { accountId: setup.organization.id, mode: "live" };
  const events = await readEvents(setup.deps, owner, { types: ["evidence.milestone_reached"] });
  const common = { order_id: order.id, public_id: order.publicId, tree_count: 10 };
  t.deepEqual(
    events.map(({ data }) => data),
    [
      { ...common, milestone: "funds_distributed" },
      { ...common, milestone: "allocated" },
    ],
  );
});

test("impact event list shows the feed", async (t) => {
  const { db, databaseUrl } = t.context;
  const env = { DATABASE_URL: databaseUrl };
  const { id } = await createTestOrganization(db);
  await recordEvent(db, { accountId: id, mode: "live" }, refunded("1"), new Date());
  await recordEvent(db, { accountId: id, mode: "live" }, refunded("2"), new Date());
  const run = await untilComplete(
    () => runImpact(["event", "list", "--org", id], { env }),
    ({ stderr }) => stderr.includes("held back"),
  );
  t.is(run.exitCode, 0);
  t.regex(run.stdout, /registration\.refunded/u);

  const one = await runImpact(["event", "list", "--org", id, "--limit", "1", "--json"], { env });
  t.regex(one.stderr, /More events exist/u);
  const [event] = z.array(z.looseObject({ id: z.string() })).parse(readJson(one));
  const args = ["--starting-after", event?.id ?? "", "--types", "registration.refunded", "--json"];
  const rest = await runImpact(["event", "list", "--org", id, ...args], { env });
  t.like(readJson(rest), { 0: { data: { registration_id: "2" } }, length: 1 });
  t.is((await runImpact(["event", "list", "--org", id, "--types", "x"], { env })).exitCode, 2);
});
