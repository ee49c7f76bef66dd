import { z } from "zod";
import type { ExecutionContext } from "ava";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { readJson, runImpact } from "../cli/runImpact.ts";
import { rowsIn, startStoreApiOf } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { linesOf, setUpImport, summaryOf } from "./importScene.ts";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import { simulateAllocated } from "../../modules/planting/simulated/simulatedFacts.ts";
import { systemClock } from "../../runtime/clock.ts";
import { readEvents } from "../events/readEvents.ts";
import type { DatabaseContext } from "../support/database.ts";
import { TEMPORAL_ADDRESS } from "../support/programs.ts";
import { orderedTree } from "./evidenceLines.ts";

const test = testWithDatabase();

const fields = z.record(z.string(), z.unknown());

const IDS = ["d-1", "don/ation?2", "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e22"];

/** As the donation list of another server returns them. */
const DONATIONS = IDS.map((id, index) => ({
  id,
  amount_cents: (index + 1) * 100,
  currency: "USD",
  ein: index === 1 ? "" : "53-0196605",
  nonprofit_id: `n-${index}`,
  charity_name: "American Red Cross",
  created_at: `2024-0${index + 1}-15T10:00:00.000Z`,
  attribution: "gala",
  metadata: { table: index },
  refunded: index === 2,
  ...(index === 0 ? { idempotency_key: "gift-0" } : {}),
}));

test("lists, repeated keys and refunds find every imported donation by the id that it brought along", async (t) => {
  const { db } = t.context;
  const { apiKeyProd: key, apiKeyTest, importText, impact } = await setUpImport(t);
  const other = await setUpImport(t);
  const { call } = await startStandaloneApi(t, { db });
  const run = await importText(linesOf(...DONATIONS), "--kind", "donation");
  t.is(run.exitCode, 0, run.stderr);
  t.like(summaryOf(run), { new: 3 });

  const list = await call("GET", "/charities/donations", { key });
  t.deepEqual(list.body["donations"], DONATIONS.toReversed());
  t.deepEqual(
    (await call("GET", "/charities/donations", { key: apiKeyTest })).body["donations"],
    [],
  );

  const replay = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 999, ein: "530196605", idempotency_key: "gift-0" },
  });
  t.is(replay.status, 200);
  t.is(replay.headers.get("Idempotent-Replayed"), "true");
  t.like(replay.body, { donation_id: "d-1", amount_cents: 100, total_donations: 2 });

  const foreign = { key: other.apiKeyProd, body: { id: IDS[1] } };
  t.is((await call("POST", "/refund/donations", foreign)).status, 404);
  const refund = await call("POST", "/refund/donations", { key, body: { id: IDS[1] } });
  t.is(refund.status, 200);
  t.like(refund.body, {
    refunded_amount_cents: 200,
    total_donations: 1,
    refund_id: `refund-${IDS[1]}`,
  });
  // It was refunded before the cut-over, so nothing changes.
  const again = await call("POST", "/refund/donations", { key, body: { id: IDS[2] } });
  t.is(again.headers.get("Idempotent-Replayed"), "true");
  t.like(again.body, { total_donations: 1, refund_id: `refund-${IDS[2]}` });

  for (const id of IDS) {
    for (const text of [id, `refund-${id}`]) {
      const found = await impact("find", text, "--json");
      t.is(found.exitCode, 0, found.stderr);
      t.like(readJson(found), { records: [{ record: "donation", id, found_by: ["imported_id"] }] });
    }
  }
  const [refundedHere, refundedBefore] = await Promise.all(
    IDS.slice(1, 3).map(async (id) => {
      const found = fields.parse(readJson(await impact("find", id, "--json")));
      return rowsIn(found, "records")[0];
    }),
  );
  t.like(refundedHere, { refunded: true });
  t.regex(String(refundedHere?.["refunded_at"]), /^\d{4}-/u);
  t.like(refundedBefore, { refunded: true, refunded_at: null });
});

test("a donation that is there with another amount is a conflict", async (t) => {
  const { importText } = await setUpImport(t);
  // The other test's ids are those of another account, and operators' commands look in all accounts.
  const [first, second] = DONATIONS.map((donation) =>
    Object.assign({}, donation, { id: `c${donation.id}` }),
  );
  await importText(linesOf({ ...first }, { ...second }), "--kind", "donation");
  const changed = linesOf(
    { ...first, amount_cents: 1 },
    { ...second, refunded: true },
    { ...first },
  );
  const run = await importText(changed, "--kind", "donation");
  t.is(run.exitCode, 1);
  t.like(summaryOf(run), { lines: 3, new: 0, known: 1, refunded: 1, conflict: 1, bad: 0 });
  t.regex(run.stderr, /line 1: conflict: .* with another amount_cents$/mu);
  const back = await importText(linesOf({ ...second }), "--kind", "donation");
  t.regex(back.stderr, /line 1: conflict: .* with another refunded \(it is refunded here\)$/mu);
});

test("a store's imported donations keep their ids for its clients, and a repeated key pays nothing", async (t) => {
  const { databaseUrl } = t.context;
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const [first, second] = DONATIONS.map((donation) =>
    Object.assign({}, donation, {
      id: `s${donation.id}`,
      customer_id: "7",
      attribution: "",
      metadata: {},
    }),
  );
  const env = { DATABASE_URL: databaseUrl };
  const run = await runImpact(
    ["import", "history", "-", "--org", store.domain, "--kind", "donation", "--json"],
    { env, stdin: linesOf({ ...first, refunded: true }, { ...second }) },
  );
  t.is(run.exitCode, 0, run.stderr);

  const list = await get("/app/api/charity/donations", store.live);
  const exported = await runImpact(
    ["store", "export-customer", store.domain, "--customer-id", "7"],
    { env },
  );
  for (const body of [list.body, fields.parse(readJson(exported))]) {
    t.deepEqual(
      rowsIn(body, "donations").map(({ id, refunded }) => ({ id, refunded })),
      [
        { id: second?.id, refunded: false },
        { id: first?.id, refunded: true },
      ],
    );
  }
  t.notRegex(exported.stdout, /"refunded_at": "/u);
  const replay = await post(
    "/app/api/charity/donate",
    { ...store.live, "Idempotency-Key": "gift-0" },
    { charity_id: "n-0", amount_dollars: 1 },
  );
  t.is(replay.headers.get("Idempotent-Replayed"), "true");
  t.like(replay.body, { charity_id: "n-0", amount: 1, mode: "PROD" });
  t.like((await get("/app/api/balance", store.live)).body, { balance_cents: 1000 });
});

/** Imports a tree with its order for a new organization. */
const importOrder = async (t: ExecutionContext<DatabaseContext>, orderId: number) => {
  const scene = await setUpImport(t);
  const run = await scene.importText(
    linesOf(...orderedTree("a", orderId)),
    "--source",
    "old.example",
  );
  t.is(run.exitCode, 0, run.stderr);
  const [order] = await listPlantingOrders(t.context.db, { accountId: scene.id, limit: 2 });
  if (!order) {
    throw new Error("There is an order.");
  }
  return { ...scene, order };
};

test("events of an imported order name the ids that its evidence shows", async (t) => {
  const { db, databaseUrl } = t.context;
  const { id: accountId, apiKeyProd: key, order } = await importOrder(t, 107);
  const run = await runImpact(["evidence", "record", "-"], {
    env: { DATABASE_URL: databaseUrl, TEMPORAL_ADDRESS },
    stdin: JSON.stringify({
      order: order.publicId,
      facts: [simulateAllocated(order, new Date("2024-05-10T08:00:00.000Z"))],
    }),
  });
  t.is(run.exitCode, 0, run.stderr);

  const owner = { accountId, mode: "live" } as const;
  const [event, ...others] = await readEvents({ db, clock: systemClock }, owner, {
    types: ["evidence.milestone_reached"],
  });

  t.deepEqual(others, []);
  t.deepEqual(event?.data, {
    order_id: 107,
    public_id: "ORD-107",
    milestone: "allocated",
    tree_count: 4,
  });
  const { call } = await startStandaloneApi(t, { db });
  const { body } = await call("GET", "/evidence/tree/a", { key });
  t.like(body, {
    status: "allocated",
    provider_meta: { order_id: 107, public_id: "ORD-107" },
  });
});

test("an operator sees the ids of an imported order that clients see", async (t) => {
  const { impact, id: org, order } = await importOrder(t, 90_000_108);
  const ids = {
    id: order.id,
    public_id: order.publicId,
    evidence_order_id: 90_000_108,
    evidence_public_id: "ORD-90000108",
  };
  const listed = await impact("evidence", "order", "list", "--org", org, "--json");
  t.like(readJson(listed), [ids]);
  const table = await impact("evidence", "order", "list", "--org", org);
  t.regex(table.stdout, /ORD-90000108/u);
  for (const given of [String(order.id), order.publicId]) {
    const shown = await impact("evidence", "order", "show", given, "--json");
    t.is(shown.exitCode, 0, shown.stderr);
    t.like(readJson(shown), ids);
  }
});
