import { sql } from "../../../db/sql.ts";
import { idIn, statusesOf } from "../../api/contract.ts";
import { startStandaloneApi, startApiOf } from "../../api/startStandaloneApi.ts";
import { testWithDatabase, openTestPool } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { lockRows, lockTable, runBehindLocks } from "../../support/lockWaits.ts";
import { eventually } from "../../support/programs.ts";
import { createRefundWriter } from "../../../modules/registrations/refundRegistration.ts";
import { startBilledApi } from "../../billing/billedApi.ts";
import { setUpBilling } from "../../billing/billingSetup.ts";

// Serial, because some tests wait for the same lock.
const test = testWithDatabase().serial;

const REFUNDS = [
  { kind: "a refund", path: "/refund/trees", bodyOf: (id: string) => ({ id, count: 1 }) },
  {
    kind: "a batch of refunds",
    path: "/refund/trees/batch",
    bodyOf: (id: string) => ({ items: [{ id, count: 1 }] }),
  },
];

for (const { kind, path, bodyOf } of REFUNDS) {
  test(`registrations do not wait while ${kind} of their account is recorded by another process`, async (t) => {
    const { db } = t.context;
    const { get, key, post } = await startApiOf(t);
    const other = await startStandaloneApi(t, { db });
    const { apiKeyProd: otherKey } = await createTestOrganization(db);
    const register = (owner: string) =>
      other.call("POST", "/plant/trees", { key: owner, body: { count: 5 } });
    const id = idIn((await register(key)).body, "tree");
    // What a refund records before it changes the totals.
    const lock = await lockTable(t, t.context.databaseUrl, "event", "SHARE");

    const refund = post(path, bodyOf(id));
    await eventually(async () => (await lock.countWaiting()) > 0);
    t.deepEqual(statusesOf(await Promise.all([register(key), register(otherKey)])), [200, 200]);

    await lock.release();
    t.is((await refund).status, 200);
    t.is((await get("/plant/trees")).body["total_planted_trees"], 9);
  });
}

test("a refund that waits for the totals subtracts from what they have become", async (t) => {
  const { db } = t.context;
  const { id: accountId, get, post } = await startApiOf(t);
  const { body } = await post("/plant/trees", { count: 5 });

  const [refund] = await runBehindLocks<[{ readonly body: unknown }]>(
    db,
    (transaction) =>
      transaction.query(sql.typeAlias("void")`
        UPDATE impact_total SET total = total + 100 WHERE account_id = ${accountId}
      `),
    () => post("/refund/trees", { id: idIn(body, "tree"), count: 2 }),
  );

  t.like(refund.body, { total_planted_trees: 103 });
  t.is((await get("/plant/trees")).body["total_planted_trees"], 103);
});

test("refunds of one account wait for each other without a connection, and other accounts do not wait", async (t) => {
  const { databaseUrl } = t.context;
  const db = await openTestPool(t, databaseUrl, 4);
  const { call, key, get } = await startApiOf(t, { db });
  const { apiKeyProd: otherKey } = await createTestOrganization(db);
  const register = async (owner: string): Promise<string> =>
    idIn((await call("POST", "/plant/trees", { key: owner, body: { count: 100 } })).body, "tree");
  const refund = (owner: string, id: string) =>
    call("POST", "/refund/trees", { key: owner, body: { id, count: 1 } });
  const [id, otherId] = [await register(key), await register(otherKey)];
  const release = await lockRows(t, databaseUrl, "registration", "id", id);

  const waiting = Array.from({ length: 30 }, () => refund(key, id));
  await eventually(() => db.state().acquiredConnections > 0);
  // More than one round of the event loop of this process, which also serves the requests.
  t.is((await refund(otherKey, otherId)).status, 200);
  await register(otherKey);

  // Other work, such as the sums of the day, may hold a connection for a moment.
  await eventually(() => {
    const { acquiredConnections, waitingClients } = db.state();
    return acquiredConnections === 1 && waitingClients === 0;
  });
  await release();
  t.deepEqual([...new Set(statusesOf(await Promise.all(waiting)))], [200]);
  t.is((await get("/plant/trees")).body["total_planted_trees"], 70);
});

test("a refund that waits for Stripe delays neither replays nor refunds of test mode", async (t) => {
  const billing = await setUpBilling(t);
  const { control } = billing.double;
  const { post } = await startBilledApi(t, billing);
  const id = await billing.register(3);
  const testId = await billing.register(3, "test");
  const refund = (body: object) => post("/refund/trees", body);
  const path = `/v1/subscriptions/${billing.subscriptionId}`;
  const keyed = { id, count: 1, idempotency_key: "k" };
  t.is((await refund(keyed)).status, 200);
  // The stored billing period is too old.
  billing.pass(3601);
  control.addFault({ kind: "hold", method: "GET", path });

  const waiting = refund({ id, count: 1 });
  await eventually(() => control.held() === 1);
  t.like(await refund(keyed), { status: 200, replayed: "true" });
  t.is((await post("/refund/trees", { id: testId, count: 1 }, "test")).status, 200);
  control.release();
  // Not a 503: the call has not timed out meanwhile.
  t.is((await waiting).status, 200);
});

test("refunds at the same time share a call to Stripe, and one after a failed call makes another", async (t) => {
  const { deps, double, stream, subscriptionId, register } = await setUpBilling(t);
  const { control } = double;
  const path = `/v1/subscriptions/${subscriptionId}`;
  const { refundAll } = createRefundWriter(deps);
  const request = { id: await register(3), count: 1, reason: null, idempotencyKey: null };
  const refund = () => refundAll(stream, [request], false);
  control.addFault({ kind: "drop", method: "GET", path });

  const results = await Promise.allSettled([refund(), refund()]);
  t.deepEqual(statusesOf(results), ["rejected", "rejected"]);
  t.like(await refund(), [{ refundedCount: 1 }]);
  t.is(control.calls().filter((each) => each.path === path).length, 2);
});
