import { sql } from "../../../db/sql.ts";
import { idIn } from "../../api/contract.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { lockTable, runBehindLocks } from "../../support/lockWaits.ts";
import { eventually } from "../../support/programs.ts";

const test = testWithDatabase();

const REFUNDS = [
  {
    kind: "a refund",
    path: "/refund/trees",
    bodyOf: (id: string) => ({ id, count: 1 }),
  },
  {
    kind: "a batch of refunds",
    path: "/refund/trees/batch",
    bodyOf: (id: string) => ({ items: [{ id, count: 1 }] }),
  },
];

for (const { kind, path, bodyOf } of REFUNDS) {
  // Serial, because they wait for the same lock.
  test.serial(
    `registrations do not wait while ${kind} of their account is recorded by another process`,
    async (t) => {
      const { db } = t.context;
      const { call } = await startStandaloneApi(t, { db });
      const other = await startStandaloneApi(t, { db });
      const { apiKeyProd: key } = await createTestOrganization(db);
      const { apiKeyProd: otherKey } = await createTestOrganization(db);
      const register = (owner: string) =>
        other.call("POST", "/plant/trees", { key: owner, body: { count: 5 } });
      const id = idIn((await register(key)).body, "tree");
      // What a refund records before it changes the totals.
      const lock = await lockTable(t, t.context.databaseUrl, "event", "SHARE");

      const refund = call("POST", path, { key, body: bodyOf(id) });
      await eventually(async () => (await lock.countWaiting()) > 0);
      const responses = await Promise.all([register(key), register(otherKey)]);
      t.deepEqual(
        responses.map(({ status }) => status),
        [200, 200],
      );

      await lock.release();
      t.is((await refund).status, 200);
      t.is((await call("GET", "/plant/trees", { key })).body["total_planted_trees"], 9);
    },
  );
}

test("a refund that waits for the totals subtracts from what they have become", async (t) => {
  const { db } = t.context;
  const { call } = await startStandaloneApi(t, { db });
  const { id: accountId, apiKeyProd: key } = await createTestOrganization(db);
  const { body } = await call("POST", "/plant/trees", { key, body: { count: 5 } });

  const [refund] = await runBehindLocks<[{ readonly body: unknown }]>(
    db,
    (transaction) =>
      transaction.query(sql.typeAlias("void")`
        UPDATE impact_total SET total = total + 100 WHERE account_id = ${accountId}
      `),
    () => call("POST", "/refund/trees", { key, body: { id: idIn(body, "tree"), count: 2 } }),
  );

  t.like(refund.body, { total_planted_trees: 103 });
  t.is((await call("GET", "/plant/trees", { key })).body["total_planted_trees"], 103);
});
