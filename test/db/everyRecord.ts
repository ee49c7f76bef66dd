import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { recordPass } from "../../db/perpetualWork.sql.ts";
import { sql } from "../../db/sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { updateOrganization } from "../../modules/accounts/manageOrganizations.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { createPlantingOrders } from "../../modules/planting/createPlantingOrders.ts";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import { placePlantingOrder, pollPlantingOrder } from "../../modules/planting/pollPlantingOrder.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { drainUsage } from "../billing/drainUsage.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import type { TestStore } from "../stores/startStoreApi.ts";
import { createTestOrganization, setLimits } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { createTestPlanting, STAGE_MS } from "../support/planting.ts";
import { sumLedgerUnits } from "../support/accountSums.ts";

const NOW = "2026-11-30T12:00:00.000Z";
const NEVER = new AbortController().signal;
const EIN = "530242652";

/** Whose records are read. */
export const readers = z.strictObject({
  accountId: z.uuid(),
  key: z.string(),
  store: z.record(z.string(), z.string()),
});
export type Readers = z.output<typeof readers>;

/** Serves both interfaces at the time of the records. Their requests have the readers' keys. */
export const serveAll = async (
  t: ExecutionContext,
  db: DatabasePool,
  { accountId, key, store }: Readers,
) => {
  const clock = createMovableClock(NOW);
  const planting = createTestPlanting();
  const options = { db, clock, planting };
  const publicBaseUrl = "https://impact.example";
  const standalone = await startStandaloneApi(t, { ...options, publicBaseUrl });
  const ofStore = await startStoreApi(t, options);
  const get = async (path: string) => {
    if (path.startsWith("/app/")) {
      return ofStore.get(path, store);
    }
    // The public pages are not in the API description.
    if (path.endsWith(".json")) {
      const response = await fetch(standalone.url + path);
      return { status: response.status, body: z.looseObject({}).parse(await response.json()) };
    }
    return standalone.call("GET", path, { key });
  };
  const read = async (path: string): Promise<Record<string, unknown>> => {
    const { status, body } = await get(path);
    t.is(status, 200, `${path}: ${JSON.stringify(body)}`);
    return body;
  };
  const write = async (path: string, body: object, idempotencyKey = path) => {
    const headers = { "Idempotency-Key": idempotencyKey };
    const response = path.startsWith("/app/")
      ? await ofStore.post(path, { ...store, ...headers }, body)
      : await standalone.call("POST", path, { key, body, headers });
    t.is(response.status, 200, `${path}: ${JSON.stringify(response.body)}`);
    return response;
  };
  /** Bills the organization's trees with the built-in ledger. @returns the units that are billed in all */
  const bill = async (): Promise<number> => {
    const billing = createBilling({ db, stripe: null });
    await billing.prepare();
    const stream = { accountId, mode: "live", kind: "tree" } as const;
    const later = { now: () => new Date(Date.parse(NOW) + DAY_MS) };
    await drainUsage({ db, clock: later, billing }, stream);
    return sumLedgerUnits(db, stream);
  };
  return { clock, planting, read, write, bill };
};
type Served = Awaited<ReturnType<typeof serveAll>>;

const ORDER = { customer_name: "Ann Lee", customer_email: "ann@example.com", order_id: "#1" };
export const TREES = { count: 7, attribution: "spring", metadata: { order: "1" } };

const idIn = (body: unknown): string =>
  z.string().parse(/"id":"(?<id>[^"]+)"/u.exec(JSON.stringify(body))?.groups?.["id"]);

/** Writes as clients of both interfaces do. */
const writeAsClients = async ({ write }: Served): Promise<{ readonly tree: string }> => {
  const create = async (path: string, body: object) => idIn((await write(path, body)).body);
  await write("/webhook_endpoints", { url: "http://127.0.0.1:9/" });
  const tree = await create("/plant/trees", TREES);
  const bottles = await create("/rescue/plastic_bottles", { count: 5 });
  await write("/refund/trees", { id: tree, count: 2 });
  await write("/refund/plastic_bottles", { id: bottles, reason: "order returned" });
  await write("/charities/subscribe", {});
  const donation = await create("/charities/donate", { amount_cents: 500, ein: EIN });
  await write("/refund/donations", { id: donation });
  await write("/charities/donate", { amount_cents: 700, ein: EIN }, "second donation");
  await write("/app/api/plant", { ...ORDER, trees: 3 });
  await write("/app/api/plastic", { ...ORDER, bottles: 4 });
  await write("/app/api/charity/donate", { ...ORDER, charity_id: EIN, amount_dollars: 2 });
  await write("/app/api/refund", { type: "tree", quantity: 1, order_id: "#1" });
  return { tree };
};

const plant = async (db: DatabasePool, { clock, planting }: Served): Promise<void> => {
  const context = { db, clock, planting };
  await createPlantingOrders(context, NEVER);
  const orders = await listPlantingOrders(db, { limit: 10 });
  for (const { id } of orders) {
    await placePlantingOrder(context, id, NEVER);
  }
  clock.set(new Date(Date.parse(NOW) + 3 * STAGE_MS).toISOString());
  for (const { id } of orders) {
    await pollPlantingOrder(context, id, NEVER);
  }
  clock.set(NOW);
};

/** Inserts what Stripe, other partners and interrupted imports leave. Keeps one charity, because migrations add many. */
const insertTheRest = async (db: DatabasePool, accountId: string): Promise<void> => {
  for (const statement of [
    sql.typeAlias("void")`DELETE FROM charity WHERE ein <> ${EIN}`,
    sql.typeAlias(
      "void",
    )`INSERT INTO stripe_customer (customer_id, read_at) VALUES ('cus_1', ${NOW})`,
    sql.typeAlias("void")`
      INSERT INTO stripe_subscription (account_id, subscription_id, state, read_at)
      VALUES (${accountId}, 'sub_1', '{"status": "active", "meteredKinds": ["tree"]}', ${NOW})
    `,
    sql.typeAlias("void")`
      INSERT INTO billing_period (account_id, kind, subscription_id, starts_at, ends_at, read_at)
      VALUES (${accountId}, 'tree', 'sub_1', '2026-11-01', '2026-12-01', ${NOW})
    `,
    sql.typeAlias("void")`
      INSERT INTO invoiced_usage (
        customer_id, kind, start_second, end_second, account_ids, subscription_id, quantity, delivered, units
      )
      VALUES ('cus_1', 'tree', 1, 2, ARRAY[${accountId}::uuid], 'sub_1', 5, 5, 5)
    `,
    sql.typeAlias("void")`
      INSERT INTO reconciliation (started_at, ended_at, streams) VALUES (${NOW}, ${NOW}, 1)
    `,
    sql.typeAlias("void")`
      INSERT INTO processor_event (id, type, received_at, next_attempt_at)
      VALUES ('evt_1', 'customer.subscription.updated', ${NOW}, ${NOW})
    `,
    sql.typeAlias("void")`
      INSERT INTO planting_claim (partner, reference, order_id, trees)
      SELECT 'treemapper', 'record-1', id, 1 FROM planting_order LIMIT 1
    `,
  ]) {
    await db.query(statement);
  }
};

/** Fills every table of an empty database. @returns who can read the records, and with which requests */
export const insertEveryRecord = async (t: ExecutionContext, db: DatabasePool) => {
  const clock = createMovableClock(NOW);
  const { id: accountId, apiKeyProd: key } = await createTestOrganization(db, { clock });
  const store: TestStore = await createTestStore(db, {
    organizationId: accountId,
    balanceCents: 9000,
  });
  const created = { accountId, key, store: store.live };
  await updateOrganization({ db, clock, actor: SERVICE }, accountId, {
    profile: { displayName: "Green Shop", color: "#0b5d8a", homeUrl: null, story: null },
  });
  await setLimits(db, accountId, { countPerDay: 1000 });
  const served = await serveAll(t, db, created);
  const { tree } = await writeAsClients(served);
  await plant(db, served);
  await served.bill();
  await recordPass(db, "usage-sender");
  // These are neither ordered nor billed.
  await served.write("/plant/trees", TREES, "another order");
  await insertTheRest(db, accountId);

  const pathOf = async (path: string, field: string): Promise<string> =>
    `${new URL(String((await served.read(path))[field])).pathname}.json`;
  const paths = [
    await pathOf("/dashboard_url", "dashboard_url"),
    await pathOf(`/certificate_url?id=${tree}`, "certificate_url"),
    ..."/plant/trees /rescue/plastic_bottles /charities/donations /evidence /webhook_endpoints".split(
      " ",
    ),
    `/evidence/tree/${tree}`,
    `/usage/${tree}`,
    "/stats?kind=tree&interval=month",
    ..."/app/api/plant /app/api/plastic /app/api/charity/donations /app/api/balance".split(" "),
    "/app/api/impact/stats",
    "/app/api/evidence",
  ];
  return { readers: created, paths };
};
