import { Client } from "pg";
import { openPool } from "../../../db/pool.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";
import { idIn } from "../../api/contract.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { eventually } from "../../support/programs.ts";

const test = testWithDatabase();

test("refunds of one account wait for each other without a connection, and other accounts do not wait", async (t) => {
  const { databaseUrl } = t.context;
  const db = await openPool(databaseUrl, 4);
  t.teardown(() => db.end());
  const { call } = await startStandaloneApi(t, { db });
  const { apiKeyProd: key } = await createTestOrganization(db);
  const { apiKeyProd: otherKey } = await createTestOrganization(db);
  const register = async (owner: string): Promise<string> =>
    idIn((await call("POST", "/plant/trees", { key: owner, body: { count: 100 } })).body, "tree");
  const refund = (owner: string, id: string) =>
    call("POST", "/refund/trees", { key: owner, body: { id, count: 1 } });
  const [id, otherId] = [await register(key), await register(otherKey)];
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  t.teardown(() => client.end());
  await client.query("BEGIN");
  await client.query("SELECT FROM registration WHERE id = $1 FOR UPDATE", [id]);

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
  await client.query("COMMIT");
  const responses = await Promise.all(waiting);
  t.deepEqual([...new Set(responses.map(({ status }) => status))], [200]);
  t.is((await call("GET", "/plant/trees", { key })).body["total_planted_trees"], 70);
});
