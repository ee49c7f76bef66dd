import { z } from "zod";
import { createPlantingOrders } from "../../modules/planting/createPlantingOrders.ts";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { startApiOf } from "../api/startStandaloneApi.ts";
import { idIn, KIND_NAMES, registrationsIn } from "../api/contract.ts";
import { impactOf, readJson } from "../cli/runImpact.ts";
import { rowsIn, startStoreApiOf } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createTestPlanting } from "../support/planting.ts";
import { importForStore, linesOf, serveImport, setUpImport, summaryOf } from "./importScene.ts";

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

const fields = z.record(z.string(), z.unknown());

const HISTORY = IDS.flatMap((id, index) =>
  (["tree", "bottle"] as const).map((kind) => ({
    kind,
    id,
    count: index + 2,
    fractional_count: index + 1.5,
    created_at: `2024-0${index + 1}-15T10:00:00.000Z`,
    idempotency_key: index % 2 === 0 ? `old-${index}` : "",
    attribution: index < 3 ? "newsletter" : "",
    metadata: { index, nested: { a: [1, null] } },
    refunded: index === 4 || index === 5,
    // Null is "not given": then refunded means all.
    refunded_count: index === 5 ? 3 : null,
  })),
);

const refundedOf = (index: number): number => [0, 0, 0, 0, 6, 3][index] ?? 0;

const TOTAL = IDS.reduce((sum, _id, index) => sum + index + 2 - refundedOf(index), 0);

test("lists, refunds and evidence find every imported registration by the id that it brought along, its owner's only", async (t) => {
  const { apiKeyTest, call, get, post, importText } = await serveImport(t);
  const { apiKeyProd: stranger } = await createTestOrganization(t.context.db);
  const run = await importText(linesOf(...HISTORY));
  t.like(summaryOf(run), { exitCode: 0, new: HISTORY.length, bad: 0 }, run.stderr);

  for (const kind of ["tree", "bottle"] as const) {
    const { path, refundPath, total, details } = KIND_NAMES[kind];
    const list = await get(path);
    t.is(list.body[total], TOTAL);
    const expected = HISTORY.filter((line) => line.kind === kind).map(
      ({ kind: _kind, ...line }, index) =>
        Object.assign(line, { refunded_count: refundedOf(index) }),
    );
    t.deepEqual(list.body[details], expected.toReversed());
    for (const id of IDS) {
      const one = await get(`${path}?id=${encodeURIComponent(id)}`);
      const ids = registrationsIn(one.body, kind).map((registration) => registration.id);
      t.deepEqual(ids, [id]);
      const refund = await post(refundPath, { id });
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
    const { status, body } = await get(path);
    t.is(status, 200);
    t.like(body, { tree_id: id, record_id: id, status: "registered" });
    // The second answer comes from the cache.
    t.deepEqual((await get(path)).body, body);
    for (const other of [apiKeyTest, stranger]) {
      t.is((await call("GET", path, { key: other })).status, 404);
    }
    const simulated = await get(`${path}?evidence_stage=planted`);
    t.like(simulated.body, { tree_id: id, record_id: id });
  }
});

test("the pictures of simulated evidence exist for every imported id", async (t) => {
  const { apiKeyTest: key, call, url, importText } = await serveImport(t);
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
  const { get, post } = await startApiOf(t);
  for (const id of ["x".repeat(65), "\uD800", "a\0b"]) {
    t.is((await post("/refund/trees", { id })).status, 404);
    t.is((await post("/refund/donations", { id })).status, 404);
  }
  t.is((await get("/evidence/tree/a%00b")).status, 404);
  t.is((await get("/plant/trees?id=a%00b")).status, 200);
});

test("a client that repeats a key from before the cut-over gets its registration and is not billed", async (t) => {
  const { call, key, post, importText, readSums } = await serveImport(t);
  await importText(linesOf(...HISTORY));
  const headers = { "Idempotency-Key": "old-2" };
  for (const kind of ["tree", "bottle"] as const) {
    const { path, details, total } = KIND_NAMES[kind];
    for (const replay of [
      await post(path, { count: 50, idempotency_key: "old-2" }),
      await call("POST", path, { key, body: { count: 50 }, headers }),
    ]) {
      t.like(replay, { status: 200, replayed: "true" });
      t.is(replay.body[total], TOTAL);
      t.like(registrationsIn(replay.body, kind)[0], { id: IDS[2], count: 4 });
      t.is(registrationsIn(replay.body, kind).length, 1, details);
    }
  }
  t.like(await readSums(), { facts: 0, registrations: HISTORY.length });
});

test("imported trees are not planted again unless the operator asks for it", async (t) => {
  const { db } = t.context;
  const { id: accountId, get, importText } = await serveImport(t);
  const order = async (): Promise<number> => {
    const deps = { db, clock: systemClock, planting: createTestPlanting() };
    await createPlantingOrders(deps, new AbortController().signal);
    return (await listPlantingOrders(db, { accountId, limit: 10 })).length;
  };
  const tree = { kind: "tree", count: 3, created_at: "2024-05-01T09:30:00Z" };
  await importText(linesOf({ ...tree, id: "planted" }));
  t.is(await order(), 0);
  const evidence = await get("/evidence/tree/planted");
  t.regex(JSON.stringify(evidence.body), /an earlier system, which arranged their planting/u);
  t.like(evidence.body, { impact_provider: "Earlier system", simulated: false });

  await importText(linesOf({ ...tree, id: "to plant" }), "--order-planting");
  t.is(await order(), 1);
  t.regex((await get("/evidence/tree/to%20plant")).text, /po_/u);
  t.notRegex((await get("/evidence/tree/planted")).text, /po_/u);
});

test("operators name an imported registration by either id", async (t) => {
  const scene = await setUpImport(t);
  await scene.importText(
    linesOf({ kind: "tree", id: "t-77", count: 3, created_at: "2024-05-01T09:30:00Z" }),
  );
  const found = fields.parse(await scene.impact.json("find", "t-77"));
  const [record] = rowsIn(found, "records");
  t.like(record, { record: "registration", id: "t-77", billing: "not_billed" });
  t.deepEqual(record?.["found_by"], ["imported_id"]);
  const internalId = String(record?.["internal_id"]);
  for (const given of ["t-77", internalId]) {
    const usage = await scene.impact("usage", "explain", given, "--json");
    t.like(readJson(usage), { registration_id: "t-77", billing: "not_billed" });
    const refused = await scene.impact.fails(1, "refund", given, "--reason", "test");
    t.regex(refused, /no usage record on file/u);
  }
  await scene.impact.fails(3, "usage", "explain", "t-78");
});

test("a record and its copy in another organization are told apart by --org", async (t) => {
  const original = await serveImport(t);
  const copy = await setUpImport(t);
  const { body } = await original.post("/plant/trees", { count: 2 });
  const id = idIn(body, "tree");
  await copy.importText(linesOf(...registrationsIn(body, "tree")), "--kind", "tree");

  for (const command of [
    ["usage", "explain"],
    ["refund", "--reason", "test"],
  ]) {
    const ambiguous = await original.impact.fails(2, ...command, id);
    t.regex(ambiguous, new RegExp(`2 (?:registration|record)s have the id ${id}; add --org`, "u"));
  }

  for (const owner of [original, copy]) {
    const shown = await original.impact.json("usage", "explain", id, "--org", owner.id);
    t.like(shown, { registration_id: id, account_id: owner.id });
  }
  const refund = ["refund", id, "--reason", "test", "--org"] as const;
  t.regex((await original.impact(...refund, copy.id)).stderr, /no usage record on file/u);
  await original.impact.ok(...refund, original.id);
  const { id: stranger } = await createTestOrganization(t.context.db);
  await original.impact.fails(3, "usage", "explain", id, "--org", stranger);
});

test("importing an export of the same organization again changes nothing", async (t) => {
  const { get, post, importText, readSums } = await serveImport(t);
  await post("/plant/trees", { count: 2, idempotency_key: "here" });
  await post("/plant/trees", { count: 3 });
  const list = await get("/plant/trees");
  const text = linesOf(...registrationsIn(list.body, "tree"));
  const run = await importText(text, "--kind", "tree");
  t.like(summaryOf(run), { lines: 2, new: 0, known: 2, conflict: 0, bad: 0 }, run.stderr);
  t.like(await readSums(), { registrations: 2, total: 5n });
});

/** None is a part of a random domain, which `impact find` would find as well. */
const DONATION_IDS = ["donation-1", "don/ation?2", "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e22"];

/** As the donation list of another server returns them. */
const DONATIONS = DONATION_IDS.map((id, index) => ({
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
  const { apiKeyTest, call, get, post, importText, impact } = await serveImport(t);
  const { apiKeyProd: stranger } = await createTestOrganization(t.context.db);
  const run = await importText(linesOf(...DONATIONS), "--kind", "donation");
  t.like(summaryOf(run), { exitCode: 0, new: 3 }, run.stderr);

  const list = await get("/charities/donations");
  t.deepEqual(list.body["donations"], DONATIONS.toReversed());
  const inTest = await call("GET", "/charities/donations", { key: apiKeyTest });
  t.deepEqual(inTest.body["donations"], []);

  const gift = { amount_cents: 999, ein: "530196605", idempotency_key: "gift-0" };
  const replay = await post("/charities/donate", gift);
  const body = { donation_id: "donation-1", amount_cents: 100, total_donations: 2 };
  t.like(replay, { status: 200, replayed: "true", body });

  const foreign = { key: stranger, body: { id: DONATION_IDS[1] } };
  t.is((await call("POST", "/refund/donations", foreign)).status, 404);
  const refund = await post("/refund/donations", { id: DONATION_IDS[1] });
  const refunded = { refunded_amount_cents: 200, refund_id: `refund-${DONATION_IDS[1]}` };
  t.like(refund, { status: 200, body: { ...refunded, total_donations: 1 } });
  // It was refunded before the cut-over, so nothing changes.
  const again = await post("/refund/donations", { id: DONATION_IDS[2] });
  t.is(again.headers.get("Idempotent-Replayed"), "true");
  t.like(again.body, { total_donations: 1, refund_id: `refund-${DONATION_IDS[2]}` });

  for (const id of DONATION_IDS) {
    for (const text of [id, `refund-${id}`]) {
      const records = [{ record: "donation", id, found_by: ["imported_id"] }];
      t.like(await impact.json("find", text), { records });
    }
  }
  const [refundedHere, refundedBefore] = await Promise.all(
    DONATION_IDS.slice(1, 3).map(
      async (id) => rowsIn(fields.parse(await impact.json("find", id)), "records")[0],
    ),
  );
  t.like(refundedHere, { refunded: true });
  t.regex(String(refundedHere?.["refunded_at"]), /^\d{4}-/u);
  t.like(refundedBefore, { refunded: true, refunded_at: null });
});

test("a donation that is there with another amount is a conflict", async (t) => {
  const { importText } = await setUpImport(t);
  // The other test's ids are those of another account, and operators' commands look in all accounts.
  const [first = t.fail(), second = t.fail()] = DONATIONS.map((donation) =>
    Object.assign({}, donation, { id: `c${donation.id}` }),
  );
  await importText(linesOf(first, second), "--kind", "donation");
  const changed = linesOf({ ...first, amount_cents: 1 }, { ...second, refunded: true }, first);
  const run = await importText(changed, "--kind", "donation");
  const counts = { lines: 3, new: 0, known: 1, refunded: 1, conflict: 1, bad: 0 };
  t.like(summaryOf(run), { exitCode: 1, ...counts });
  t.regex(run.stderr, /line 1: conflict: .* with another amount_cents$/mu);
  const back = await importText(linesOf(second), "--kind", "donation");
  t.regex(back.stderr, /line 1: conflict: .* with another refunded \(it is refunded here\)$/mu);
});

test("a store's imported donations keep their ids for its clients, and a repeated key pays nothing", async (t) => {
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const ofStore = { customer_id: "7", attribution: "", metadata: {} };
  const [first = t.fail(), second = t.fail()] = DONATIONS.map((donation) =>
    Object.assign({}, donation, ofStore, { id: `s${donation.id}` }),
  );
  const lines = [{ ...first, refunded: true }, second];
  const run = await importForStore(t, store.domain, lines, "--kind", "donation");
  t.is(run.exitCode, 0, run.stderr);

  const list = await get("/app/api/charity/donations", store.live);
  const exported = await impactOf(t)("store", "export-customer", store.domain, "--customer-id=7");
  for (const body of [list.body, fields.parse(readJson(exported))]) {
    const donations = rowsIn(body, "donations").map(({ id, refunded }) => ({ id, refunded }));
    t.deepEqual(donations, [
      { id: second.id, refunded: false },
      { id: first.id, refunded: true },
    ]);
  }
  t.notRegex(exported.stdout, /"refunded_at": "/u);
  const headers = { ...store.live, "Idempotency-Key": "gift-0" };
  const gift = { charity_id: "n-0", amount_dollars: 1 };
  const replay = await post("/app/api/charity/donate", headers, gift);
  const replayed = { charity_id: "n-0", amount: 1, mode: "PROD" };
  t.like(replay, { replayed: "true", body: replayed });
  t.like((await get("/app/api/balance", store.live)).body, { balance_cents: 1000 });
});
