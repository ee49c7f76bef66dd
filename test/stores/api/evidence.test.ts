import { listPlantingOrders } from "../../../modules/planting/orders.sql.ts";
import { sql } from "../../../db/sql.ts";
import { EVIDENCE_STAGES } from "../../../modules/planting/timeline.rules.ts";
import {
  pollPlantingOrder,
  placePlantingOrder,
} from "../../../modules/planting/pollPlantingOrder.ts";
import { createPlantingOrders } from "../../../modules/planting/createPlantingOrders.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestPlanting } from "../../support/planting.ts";
import { createTestStore, rowsIn, startStoreApi, startStoreApiOf } from "../startStoreApi.ts";
import type { StoreApi, TestStore } from "../startStoreApi.ts";

const test = testWithDatabase();

const PATH = "/app/api/evidence";

/** The ids of a store's tree records in test mode, newest first. */
const treeIds = async ({ get }: StoreApi, store: TestStore): Promise<readonly string[]> =>
  rowsIn((await get("/app/api/plant", store.test)).body, "trees").map(({ id }) => String(id));

test("evidence is of the newest tree, or of the one that tree_id or an alias selects", async (t) => {
  const clock = createMovableClock("2026-05-01T10:00:00.000Z");
  const api = await startStoreApi(t, { db: t.context.db, clock });
  const store = await createTestStore(t.context.db);
  await api.post("/app/api/plant", store.test, { trees: 1 });
  clock.set("2026-05-02T10:00:00.000Z");
  await api.post("/app/api/plant", store.test, { trees: 2 });
  const [newest = "", oldest = ""] = await treeIds(api, store);

  const { status, body, headers } = await api.get(PATH, store.test);
  t.is(status, 200);
  t.like(body, {
    tree_id: newest,
    record_id: newest,
    impact_type: "trees",
    created_at: "2026-05-02T10:00:00.000000Z",
    region: "",
    evidence_count: 1,
    status: "registered",
  });
  t.is(headers.get("Cache-Control"), "private, no-cache");
  for (const name of ["tree_id", "id", "tree"]) {
    t.is((await api.get(`${PATH}?${name}=${oldest}`, store.test)).body["tree_id"], oldest);
  }
  const cached = await api.get(PATH, {
    ...store.test,
    "If-None-Match": headers.get("ETag") ?? "",
  });
  t.is(cached.status, 304);
});

test("a date, or any timestamp of it, selects the newest record of the UTC day, or else the newest before it", async (t) => {
  const clock = createMovableClock("2026-05-01T10:00:00.000Z");
  const api = await startStoreApi(t, { db: t.context.db, clock });
  const store = await createTestStore(t.context.db);
  for (const time of [
    "2026-05-01T10:00:00.000Z",
    "2026-05-03T09:00:00.000Z",
    "2026-05-03T23:59:59.999Z",
    "2026-05-05T00:00:00.000Z",
  ]) {
    clock.set(time);
    await api.post("/app/api/plant", store.test, { trees: 1 });
  }
  const [third, second, , first] = await treeIds(api, store);

  for (const [given, expected] of [
    ["2026-05-01", first],
    ["2026-05-02", first],
    ["2026-05-03", second],
    ["2026-05-04", second],
    ["2026-05-05", third],
    ["9999-12-31", third],
    ["20260503", second],
    ["2026-05-03T00:00:00Z", second],
    ["2026-05-03T09:00:00.000Z", second],
    ["2026-05-03T23:59:59.998Z", second],
    ["2026-05-03T23:59:59.9999999Z", second],
    ["2026-05-02T23:59:59.9999999Z", first],
    ["2026-05-04T01:30:00%2B02:00", second],
    ["2026-05-02T22:30:00-02:00", second],
    ["2026-05-05T02:00:00%2B02:00", third],
    ["2026-05-05T02:00%2B02:00", third],
    ["2026-05-05T00:00Z", third],
    ["2026-05-04T23:59", second],
    ["2026-05-03T23:59:59.998999", second],
    ["2026-05-03T23:59:59.999", second],
  ]) {
    for (const name of ["created_at", "tree_date"]) {
      const { body } = await api.get(`${PATH}?${name}=${given}`, store.test);
      t.is(body["tree_id"], expected, given);
    }
  }
  t.is((await api.get(`${PATH}?created_at=2026-04-30`, store.test)).status, 404);
});

test("a record that was refunded in full is found only by its id", async (t) => {
  const clock = createMovableClock("2026-05-01T10:00:00.000Z");
  const api = await startStoreApi(t, { db: t.context.db, clock });
  const store = await createTestStore(t.context.db);
  await api.post("/app/api/plant", store.test, { trees: 1 });
  clock.set("2026-05-02T10:00:00.000Z");
  await api.post("/app/api/plant", store.test, { trees: 2 });
  const [newest, oldest] = await treeIds(api, store);
  const find = async (query: string): Promise<unknown> =>
    (await api.get(`${PATH}${query}`, store.test)).body["tree_id"];
  const refund = () => api.post("/app/api/refund", store.test, { type: "tree", quantity: 1 });

  await refund();
  t.is(await find(""), newest);
  await refund();
  t.is(await find(""), oldest);
  t.is(await find("?created_at=2026-05-02"), oldest);
  t.is(await find(`?tree_id=${String(newest)}`), newest);
  await refund();
  t.is((await api.get(PATH, store.test)).status, 404);
});

test("a stage is simulated for test keys only, and the stage decides the shape of the timeline", async (t) => {
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  await post("/app/api/plant", store.test, { trees: 1 });
  await post("/app/api/plant", store.live, { trees: 1 });

  for (const [stage, events] of [
    ["registered", null],
    ["funds_distributed", null],
    ["planted", ["registered", "funds_distributed", "allocated", "planted"]],
    ["planted_and_verified", ["registered", "funds_distributed", "planted_and_verified"]],
  ] as const) {
    const { status, body, headers } = await get(`${PATH}?evidence_stage=${stage}`, store.test);
    t.is(status, 200);
    t.is(body["status"], stage);
    t.is(headers.get("Evidence-Simulated"), "true");
    const timeline = rowsIn(body, "timeline");
    t.is(
      body["evidence_count"],
      timeline.filter(({ status: state }) => state === "completed").length,
    );
    if (events) {
      t.deepEqual(
        timeline.map(({ event }) => event),
        events,
      );
      t.not(body["region"], "");
    }
    const live = await get(`${PATH}?evidence_stage=${stage}`, store.live);
    t.is(live.status, 400);
    t.is(live.body["code"], "INVALID_PARAMETER");
  }
  const simulated = await get(`${PATH}?evidence_stage=planted`, store.test);
  const region = encodeURIComponent(String(simulated.body["region"]).toUpperCase());
  t.is((await get(`${PATH}?evidence_stage=planted&region=${region}`, store.test)).status, 200);
  t.is((await get(`${PATH}?evidence_stage=planted&region=Nowhere`, store.test)).status, 404);
});

test("a registration of the largest count has simulated evidence of every stage", async (t) => {
  const { get, post, store } = await startStoreApiOf(t);
  await post("/app/api/plant", store.test, { trees: Number.MAX_SAFE_INTEGER });
  for (const stage of EVIDENCE_STAGES) {
    const { status, body } = await get(`${PATH}?evidence_stage=${stage}`, store.test);
    t.is(status, 200);
    t.is(body["status"], stage);
  }
});

// Alone: it creates planting orders of every account in the database.
test.serial(
  "a store's trees are ordered, planted and found by their planting order and region",
  async (t) => {
    const { db } = t.context;
    const clock = createMovableClock("2026-05-01T10:00:00.000Z");
    const planting = createTestPlanting();
    const { get, post, store } = await startStoreApiOf(t, {
      store: { balanceCents: 1000 },
      clock,
      planting,
    });
    await post("/app/api/plant", store.live, { trees: 3 });
    const signal = new AbortController().signal;
    const deps = { db, clock, planting };
    await createPlantingOrders(deps, signal);
    const [order] = await listPlantingOrders(db, { accountId: store.id, limit: 10 });
    t.is(order?.treeCount, 3);
    await placePlantingOrder(deps, order?.id ?? 0, signal);
    for (const time of ["2026-05-02T10:00:00Z", "2026-05-03T10:00:00Z", "2026-05-04T10:00:00Z"]) {
      clock.set(time);
      await pollPlantingOrder(deps, order?.id ?? 0, signal);
    }
    await post("/app/api/plant", store.live, { trees: 1 });

    const projectId = String(order?.publicId);
    const found = await get(`${PATH}?project_public_id=${projectId}`, store.live);
    t.is(found.status, 200);
    t.is(found.body["status"], "planted_and_verified");
    const region = String(found.body["region"]);
    t.not(region, "");
    t.is(found.headers.get("Cache-Control"), "private, no-cache");
    const byId = await get(`${PATH}?tree_id=${String(found.body["tree_id"])}`, store.live);
    t.is(byId.headers.get("Cache-Control"), "private, max-age=2592000");
    const byRegion = await get(`${PATH}?region=${encodeURIComponent(region)}`, store.live);
    t.is(byRegion.body["tree_id"], found.body["tree_id"]);
    t.is((await get(PATH, store.live)).body["status"], "registered");
    t.is((await get(`${PATH}?region=Nowhere`, store.live)).status, 404);
    t.is((await get(`${PATH}?project_public_id=po_other`, store.live)).status, 404);
    await db.query(sql.typeAlias("void")`
      UPDATE planting_order
      SET site_shares = jsonb_set(site_shares, '{0,region}', '"Príncipe"')
      WHERE id = ${order?.id ?? 0}
    `);
    const combining = encodeURIComponent("Príncipe".normalize("NFD"));
    const byCombining = await get(`${PATH}?region=${combining}`, store.live);
    t.is(byCombining.body["tree_id"], found.body["tree_id"]);

    await post("/app/api/refund", store.live, { type: "tree", quantity: 2 });
    const [after] = await listPlantingOrders(db, { accountId: store.id, limit: 10 });
    t.is(after?.refundedCount, 1);
  },
);

test("malformed parameters are rejected, and records of other stores and of the other mode are not found", async (t) => {
  const { db } = t.context;
  const api = await startStoreApi(t, { db });
  const [store, other] = [await createTestStore(db), await createTestStore(db)];
  await api.post("/app/api/plant", store.test, { trees: 1 });
  await api.post("/app/api/plastic", other.test, { bottles: 1 });
  const [id = ""] = await treeIds(api, store);

  for (const query of [
    "impact_type=bottles",
    "evidence_stage=grown",
    "created_at=yesterday",
    "created_at=2026-02-30",
    "created_at=2026-02-30T10:00:00Z",
    "created_at=2026-02-28T1",
    "created_at=2026-02-28T10:00.5",
    "created_at=2026-01-01&tree_date=2026-01-02",
    `id=${id}&tree=${crypto.randomUUID()}`,
  ]) {
    const { status, body } = await api.get(`${PATH}?${query}`, store.test);
    t.is(status, 400, query);
    t.is(body["code"], "INVALID_PARAMETER");
  }
  for (const headers of [store.live, other.test, other.live]) {
    for (const query of ["", `?id=${id}`]) {
      const { status, body } = await api.get(`${PATH}${query}`, headers);
      t.is(status, 404);
      t.is(body["code"], "NOT_FOUND");
    }
  }
  t.is((await api.get(`${PATH}?id=not-a-uuid`, store.test)).status, 404);
  t.is((await api.get(`${PATH}?impact_type=trees&id=&region=`, store.test)).status, 200);
});
