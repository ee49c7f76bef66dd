import { z } from "zod";
import { createPlantingOrders } from "../../modules/planting/createPlantingOrders.ts";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { KIND_NAMES, registrationsIn } from "../api/contract.ts";
import { readJson } from "../cli/runImpact.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createTestPlanting } from "../support/planting.ts";
import { linesOf, setUpImport, summaryOf } from "./importScene.ts";

const test = testWithDatabase();

/** Ids that another server may have given. */
const IDS = [
  "1",
  "tree/7?x=1&y=#2",
  "größe-🌳",
  "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11",
  "0198C5DE-7C1F-7B52-A3A1-3F1F9A0C9E12",
  "' OR 1=1 --",
  "x".repeat(64),
];

const foundRecords = z.object({ records: z.array(z.record(z.string(), z.unknown())) });

const HISTORY = IDS.flatMap((id, index) =>
  (["tree", "bottle"] as const).map((kind) => ({
    kind,
    id,
    count: index + 2,
    fractional_count: index + 1.5,
    created_at: `2024-0${index + 1}-15T10:00:00.000Z`,
    idempotency_key: index % 2 === 0 ? `old-${index}` : "",
    attribution: index < 3 ? "newsletter" : "",
    metadata: { index },
    refunded: index === 4 || index === 5,
    // Null is "not given": then refunded means all.
    refunded_count: index === 5 ? 3 : null,
  })),
);

const refundedOf = (index: number): number => {
  if (index === 4) {
    return 6;
  }
  return index === 5 ? 3 : 0;
};

const TOTAL = IDS.reduce((sum, _id, index) => sum + index + 2 - refundedOf(index), 0);

test("lists, refunds and evidence find every imported registration by the id that it brought along, its owner's only", async (t) => {
  const { db } = t.context;
  const { apiKeyProd: key, apiKeyTest, importText } = await setUpImport(t);
  const { apiKeyProd: stranger } = await setUpImport(t);
  const { call } = await startStandaloneApi(t, { db });
  const run = await importText(linesOf(...HISTORY));
  t.is(run.exitCode, 0, run.stderr);
  t.like(summaryOf(run), { new: HISTORY.length, bad: 0 });

  for (const kind of ["tree", "bottle"] as const) {
    const { path, refundPath, total } = KIND_NAMES[kind];
    const list = await call("GET", path, { key });
    t.is(list.body[total], TOTAL);
    const expected = IDS.map((id, index) => ({
      id,
      count: index + 2,
      fractional_count: index + 1.5,
      created_at: `2024-0${index + 1}-15T10:00:00.000Z`,
      idempotency_key: index % 2 === 0 ? `old-${index}` : "",
      metadata: { index },
      attribution: index < 3 ? "newsletter" : "",
      refunded: refundedOf(index) > 0,
      refunded_count: refundedOf(index),
    })).toReversed();
    t.deepEqual(list.body[KIND_NAMES[kind].details], expected);
    for (const id of IDS) {
      const one = await call("GET", `${path}?id=${encodeURIComponent(id)}`, { key });
      t.deepEqual(
        registrationsIn(one.body, kind).map((registration) => registration.id),
        [id],
      );
      const refund = await call("POST", refundPath, { key, body: { id } });
      t.is(refund.status, 400);
      t.regex(String(refund.body["error"]), /no usage record on file/u);
      for (const other of [apiKeyTest, stranger]) {
        const foreign = await call("GET", `${path}?id=${encodeURIComponent(id)}`, { key: other });
        t.deepEqual(registrationsIn(foreign.body, kind), []);
        t.is((await call("POST", refundPath, { key: other, body: { id } })).status, 404);
      }
    }
  }
  for (const id of IDS) {
    const path = `/evidence/tree/${encodeURIComponent(id)}`;
    const evidence = await call("GET", path, { key });
    t.is(evidence.status, 200);
    t.like(evidence.body, { tree_id: id, record_id: id, status: "registered" });
    // The second answer comes from the cache.
    t.deepEqual((await call("GET", path, { key })).body, evidence.body);
    for (const other of [apiKeyTest, stranger]) {
      t.is((await call("GET", path, { key: other })).status, 404);
    }
    const simulated = await call("GET", `${path}?evidence_stage=planted`, { key });
    t.like(simulated.body, { tree_id: id, record_id: id });
  }
});

test("the pictures of simulated evidence exist for every imported id", async (t) => {
  const { apiKeyTest: key, importText } = await setUpImport(t);
  const { call, url } = await startStandaloneApi(t, { db: t.context.db });
  await importText(linesOf(...HISTORY), "--mode", "test");
  for (const id of IDS) {
    for (const stage of ["planted", "planted_and_verified"]) {
      const path = `/evidence/tree/${encodeURIComponent(id)}?evidence_stage=${stage}`;
      const { body } = await call("GET", path, { key });
      const pictures = JSON.stringify(body).match(/\/media\/simulated\/[^"]*/gu) ?? [];
      t.true(pictures.length >= 4);
      for (const picture of new Set(pictures)) {
        const response = await fetch(url + picture);
        t.is(response.status, 200, picture);
        await response.body?.cancel();
      }
    }
  }
});

test("a text that can be no id does not exist", async (t) => {
  const { apiKeyProd: key } = await setUpImport(t);
  const { call } = await startStandaloneApi(t, { db: t.context.db });
  for (const id of ["x".repeat(65), "\uD800", "a\0b"]) {
    const body = JSON.stringify({ id });
    t.is((await call("POST", "/refund/trees", { key, body })).status, 404);
    t.is((await call("POST", "/refund/donations", { key, body })).status, 404);
  }
  t.is((await call("GET", "/evidence/tree/a%00b", { key })).status, 404);
  t.is((await call("GET", "/plant/trees?id=a%00b", { key })).status, 200);
});

test("a client that repeats a key from before the cut-over gets its registration and is not billed", async (t) => {
  const { db } = t.context;
  const { id: accountId, apiKeyProd: key, importText } = await setUpImport(t);
  const { call } = await startStandaloneApi(t, { db });
  await importText(linesOf(...HISTORY));
  for (const kind of ["tree", "bottle"] as const) {
    const { path, details, total } = KIND_NAMES[kind];
    const inBody = await call("POST", path, { key, body: { count: 50, idempotency_key: "old-2" } });
    const inHeader = await call("POST", path, {
      key,
      body: { count: 50 },
      headers: { "Idempotency-Key": "old-2" },
    });
    for (const replay of [inBody, inHeader]) {
      t.is(replay.status, 200);
      t.is(replay.headers.get("Idempotent-Replayed"), "true");
      t.is(replay.body[total], TOTAL);
      t.like(registrationsIn(replay.body, kind)[0], { id: IDS[2], count: 4 });
      t.is(registrationsIn(replay.body, kind).length, 1, details);
    }
  }
  t.like(await readAccountSums(db, accountId), { facts: 0, registrations: HISTORY.length });
});

test("imported trees are not planted again unless the operator asks for it", async (t) => {
  const { db } = t.context;
  const { id: accountId, apiKeyProd: key, importText } = await setUpImport(t);
  const { call } = await startStandaloneApi(t, { db });
  const order = async (): Promise<number> => {
    const deps = { db, clock: systemClock, planting: createTestPlanting() };
    await createPlantingOrders(deps, new AbortController().signal);
    return (await listPlantingOrders(db, { accountId, limit: 10 })).length;
  };
  const tree = { kind: "tree", count: 3, created_at: "2024-05-01T09:30:00Z" };
  await importText(linesOf({ ...tree, id: "planted" }));
  t.is(await order(), 0);
  const evidence = await call("GET", "/evidence/tree/planted", { key });
  t.regex(JSON.stringify(evidence.body), /an earlier system, which arranged their planting/u);
  t.like(evidence.body, { impact_provider: "Earlier system", simulated: false });

  await importText(linesOf({ ...tree, id: "to plant" }), "--order-planting");
  t.is(await order(), 1);
  t.regex(JSON.stringify((await call("GET", "/evidence/tree/to%20plant", { key })).body), /po_/u);
  t.notRegex(JSON.stringify((await call("GET", "/evidence/tree/planted", { key })).body), /po_/u);
});

test("operators name an imported registration by either id", async (t) => {
  const scene = await setUpImport(t);
  await scene.importText(
    linesOf({ kind: "tree", id: "t-77", count: 3, created_at: "2024-05-01T09:30:00Z" }),
  );
  const found = await scene.impact("find", "t-77", "--json");
  t.is(found.exitCode, 0, found.stderr);
  const { records } = foundRecords.parse(readJson(found));
  const [record] = records;
  t.like(record, { record: "registration", id: "t-77", billing: "not_billed" });
  t.deepEqual(record?.["found_by"], ["imported_id"]);
  const internalId = String(record?.["internal_id"]);
  for (const given of ["t-77", internalId]) {
    const usage = await scene.impact("usage", "explain", given, "--json");
    t.like(readJson(usage), { registration_id: "t-77", billing: "not_billed" });
    const refund = await scene.impact("refund", given, "--reason", "test");
    t.is(refund.exitCode, 1);
    t.regex(refund.stderr, /no usage record on file/u);
  }
  t.is((await scene.impact("usage", "explain", "t-78")).exitCode, 3);

  const other = await setUpImport(t);
  await other.importText(
    linesOf({ kind: "tree", id: "t-77", count: 1, created_at: "2024-05-01T09:30:00Z" }),
  );
  const ambiguous = await scene.impact("usage", "explain", "t-77");
  t.is(ambiguous.exitCode, 2);
  t.regex(ambiguous.stderr, /2 registrations have the id t-77; add --org/u);
  t.is((await scene.impact("usage", "explain", internalId)).exitCode, 0);
});

test("a record and its copy in another organization are told apart by --org", async (t) => {
  const { db } = t.context;
  const original = await setUpImport(t);
  const copy = await setUpImport(t);
  const { call } = await startStandaloneApi(t, { db });
  const key = original.apiKeyProd;
  await call("POST", "/plant/trees", { key, body: { count: 2 } });
  const list = await call("GET", "/plant/trees", { key });
  const [{ id } = { id: "" }] = registrationsIn(list.body, "tree");
  await copy.importText(linesOf(...registrationsIn(list.body, "tree")), "--kind", "tree");

  for (const command of [
    ["usage", "explain"],
    ["refund", "--reason", "test"],
  ]) {
    const ambiguous = await original.impact(...command, id);
    t.is(ambiguous.exitCode, 2);
    t.regex(ambiguous.stderr, /2 (?:registrations|records) have the id/u);
  }

  for (const owner of [original, copy]) {
    const shown = await original.impact("usage", "explain", id, "--org", owner.id, "--json");
    t.like(readJson(shown), { registration_id: id, account_id: owner.id });
  }
  const refund = ["refund", id, "--reason", "test", "--org"] as const;
  t.regex((await original.impact(...refund, copy.id)).stderr, /no usage record on file/u);
  const refunded = await original.impact(...refund, original.id);
  t.is(refunded.exitCode, 0, refunded.stderr);
  const { id: stranger } = await createTestOrganization(db);
  t.is((await original.impact("usage", "explain", id, "--org", stranger)).exitCode, 3);
});

test("importing an export of the same organization again changes nothing", async (t) => {
  const { db } = t.context;
  const { id: accountId, apiKeyProd: key, importText } = await setUpImport(t);
  const { call } = await startStandaloneApi(t, { db });
  await call("POST", "/plant/trees", { key, body: { count: 2, idempotency_key: "here" } });
  await call("POST", "/plant/trees", { key, body: { count: 3 } });
  const list = await call("GET", "/plant/trees", { key });
  const text = linesOf(...registrationsIn(list.body, "tree"));
  const run = await importText(text, "--kind", "tree");
  t.like(summaryOf(run), { lines: 2, new: 0, known: 2, conflict: 0, bad: 0 }, run.stderr);
  t.like(await readAccountSums(db, accountId), { registrations: 2, total: 5n });
});
