import { z } from "zod";
import { readTestRecordCount } from "../../db/accounts/testRecordCounts.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import { recountAllTestRecords } from "../../services/accounts/recountAllTestRecords.ts";
import { drainUsage } from "../../services/billing/sending/drainUsage.ts";
import { deleteOldTestRegistrations } from "../../services/registrations/deleteOldTestRegistrations.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { readJson, runImpact } from "../cli/runImpact.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestGuard, createTestOrganization } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { eventually } from "../support/programs.ts";

const test = testWithDatabase();
const NEVER = new AbortController().signal;

const fullMessage = (records: number): string =>
  `the limit of test data is reached: this account's test keys may store ${records} records. ` +
  "Old ones are deleted after a while; ask the service's operator to raise the limit";

test("test keys store registrations, refunds and donations up to their limit, and production keys more", async (t) => {
  const guard = createTestGuard(t, { ...t.context, limits: { testRecords: 4 } });
  const { call } = await startStandaloneApi(t, { ...t.context, guard });
  const { apiKeyTest: key, apiKeyProd } = await createTestOrganization(t.context.db);
  const plant = { count: 3, idempotency_key: "order-1" };
  const rescue = { count: 1 };
  const give = { amount_cents: 500, ein: "530196605", idempotency_key: "gift-1" };

  const planted = await call("POST", "/plant/trees", { key, body: plant });
  t.is(planted.status, 200);
  const [{ id } = { id: "" }] = z
    .array(z.looseObject({ id: z.string() }))
    .parse(planted.body["tree_details"]);
  const refund = { id, count: 1, idempotency_key: "refund-1" };
  t.is((await call("POST", "/plant/trees", { key, body: plant })).status, 200, "a replay is free");
  t.is((await call("POST", "/refund/trees", { key, body: refund })).status, 200);
  t.is((await call("POST", "/charities/donate", { key, body: give })).status, 200);
  t.is((await call("POST", "/rescue/plastic_bottles", { key, body: rescue })).status, 200);

  for (const [path, body] of [
    ["/plant/trees", { count: 1 }],
    ["/rescue/plastic_bottles", { count: 1 }],
    ["/refund/trees", { id, count: 1 }],
    ["/charities/donate", { amount_cents: 1, ein: "530196605" }],
  ] as const) {
    const refused = await call("POST", path, { key, body });
    t.is(refused.status, 403, path);
    t.deepEqual(refused.body, { error: fullMessage(4) });
  }
  for (const [path, body] of [
    ["/plant/trees", plant],
    ["/refund/trees", refund],
    ["/charities/donate", give],
  ] as const) {
    const repeated = await call("POST", path, { key, body });
    t.is(repeated.status, 200, path);
    t.is(repeated.headers.get("Idempotent-Replayed"), "true");
  }
  const list = await call("GET", "/plant/trees", { key });
  t.is(list.body["total_planted_trees"], 2);
  for (const _ of [1, 2, 3, 4, 5]) {
    t.is((await call("POST", "/plant/trees", { key: apiKeyProd, body: plant })).status, 200);
  }
});

test("a store's test keys have the same limit, with a code of their own", async (t) => {
  const guard = createTestGuard(t, { ...t.context, limits: { testRecords: 3 } });
  const { post } = await startStoreApi(t, { ...t.context, guard });
  const store = await createTestStore(t.context.db, { balanceCents: 10_000 });
  const reversal = { type: "tree", quantity: 1 };
  const repeatable = { ...store.test, "Idempotency-Key": "order-1" };
  const donation = { charity_id: "53-0196605", amount: 5 };

  const first = await post("/app/api/plant", repeatable, { trees: 2 });
  t.is(first.status, 200);
  t.is((await post("/app/api/refund", store.test, reversal)).status, 200);
  t.is((await post("/app/api/charity/donate", store.test, donation)).status, 200);
  for (const [path, body] of [
    ["/app/api/plant", { trees: 1 }],
    ["/app/api/plastic", { bottles: 1 }],
    ["/app/api/refund", reversal],
    ["/app/api/charity/donate", donation],
  ] as const) {
    const refused = await post(path, store.test, body);
    t.is(refused.status, 403, path);
    t.deepEqual(refused.body, { error: fullMessage(3), code: "TEST_QUOTA_REACHED" });
  }
  t.is((await post("/app/api/plant", repeatable, { trees: 2 })).text, first.text);
  t.is((await post("/app/api/plant", store.live, { trees: 1 })).status, 200);
});

test("concurrent requests do not pass the limit together, and rejected ones use nothing", async (t) => {
  const guard = createTestGuard(t, { ...t.context, limits: { testRecords: 5 } });
  const { call } = await startStandaloneApi(t, { ...t.context, guard });
  const { id, apiKeyTest: key } = await createTestOrganization(t.context.db);
  const statuses = await Promise.all(
    Array.from({ length: 20 }, async (_, index) => {
      // Every second one is refused by the domain and stores nothing.
      const path = index % 2 === 0 ? "/plant/trees" : "/refund/trees";
      const body = index % 2 === 0 ? { count: 1 } : { id: "unknown" };
      return (await call("POST", path, { key, body })).status;
    }),
  );
  t.true(statuses.filter((status) => status === 200).length <= 5);
  await eventually(
    async () => (await call("POST", "/plant/trees", { key, body: { count: 1 } })).status === 403,
  );
  await guard.store();
  t.is(await readTestRecordCount(t.context.db, id), 5);
});

test("processes learn each other's counts, and writes go on after old test data were deleted", async (t) => {
  const { db } = t.context;
  const clock = createMovableClock("2026-03-30T12:00:00.000Z");
  const limits = { testRecords: 3 };
  const guards = [1, 2].map(() => createTestGuard(t, { db, clock, limits }));
  const [one, other] = await Promise.all(
    guards.map((guard) => startStandaloneApi(t, { db, clock, guard })),
  );
  const { id, apiKeyTest: key } = await createTestOrganization(db);
  const plant = async (api: typeof one) =>
    (await api?.call("POST", "/plant/trees", { key, body: { count: 1 } }))?.status;

  t.is(await plant(one), 200);
  t.is(await plant(one), 200);
  await guards[0]?.store();
  t.is(await plant(other), 200);
  await guards[1]?.store();
  t.is(await plant(other), 403);
  t.is(await readTestRecordCount(db, id), 3);

  clock.set("2026-03-31T12:00:00.000Z");
  await drainUsage(
    { db, clock, billing: createBilling({ db, stripe: null }) },
    { accountId: id, mode: "test", meter: "tree" },
    { signal: NEVER, onResult: () => undefined },
  );
  const { registrations } = await deleteOldTestRegistrations(db, clock.now(), NEVER);
  t.is(registrations, 3);
  await recountAllTestRecords(db, NEVER);
  t.is(await readTestRecordCount(db, id), 0);
  // A rejected write makes the process read the count again.
  await eventually(async () => {
    await guards[1]?.store();
    return (await plant(other)) === 200;
  });
});

test("operators set the limit of test data of an account", async (t) => {
  const { db, databaseUrl } = t.context;
  const guard = createTestGuard(t, { db, limits: { testRecords: 1 } });
  const { id, apiKeyTest: key } = await createTestOrganization(db);
  const impact = (...args: string[]) => runImpact(args, { env: { DATABASE_URL: databaseUrl } });

  const wrongMode = await impact("org", "update", id, "--test-records", "5");
  t.is(wrongMode.exitCode, 2);
  t.regex(wrongMode.stderr, /--test-records requires --mode test/u);
  t.is((await impact("org", "update", id, "--mode", "test", "--test-records", "2")).exitCode, 0);
  const { call } = await startStandaloneApi(t, { db, guard });
  const plant = async () =>
    (await call("POST", "/plant/trees", { key, body: { count: 1 } })).status;
  t.deepEqual([await plant(), await plant(), await plant()], [200, 200, 403]);
  await guard.store();
  const shown = readJson(await impact("org", "show", id, "--json"));
  t.like(shown, { stored_test_records: 2 });
  t.regex((await impact("org", "show", id)).stdout, /stored test records +2\n/u);
});
