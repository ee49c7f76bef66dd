import { statusesOf } from "../api/contract.ts";
import { sql } from "../../db/sql.ts";
import { batchIn } from "../api/batches.ts";
import { startApiOf, startStandaloneApi } from "../api/startStandaloneApi.ts";
import { startStoreApiOf } from "../stores/startStoreApi.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, setLimits } from "../support/factories.ts";
import { lockRows, lockTable } from "../support/lockWaits.ts";
import { eventually } from "../support/programs.ts";

// Serial, because some tests wait for the same lock.
const test = testWithDatabase().serial;

const ORDER = { count: 5, idempotency_key: "order-1" };

test("a retry in another process is a replay although its first request, which is being written, reaches the limit", async (t) => {
  const { db, databaseUrl } = t.context;
  const { id, apiKeyProd: key } = await createTestOrganization(db);
  // One order reaches it.
  await setLimits(db, id, { countPerDay: 5 });
  const [one, other] = [await startStandaloneApi(t, { db }), await startStandaloneApi(t, { db })];
  const plant = ({ call }: typeof one, body: object) => call("POST", "/plant/trees", { key, body });
  // Holds all writes of accounts with limits.
  const { countWaiting, release } = await lockTable(t, databaseUrl, "account_limit", "EXCLUSIVE");

  const first = plant(one, ORDER);
  await eventually(async () => (await countWaiting()) === 1);
  const retries = [plant(other, ORDER), plant(one, ORDER)];
  const refused = plant(other, { count: 1, idempotency_key: "order-2" });
  await release();

  const responses = await Promise.all([first, ...retries]);
  t.deepEqual(statusesOf(responses), [200, 200, 200]);
  t.is(responses.filter(({ replayed }) => replayed === "true").length, 2);
  t.is((await refused).status, 403);
  t.is((await readAccountSums(db, id)).total, 5n);
});

test("a store's retry gets the response of the write in flight that reaches the limit", async (t) => {
  const { db, post, store } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  await setLimits(db, store.id, { countPerDay: 5 });
  const headers = { ...store.live, "Idempotency-Key": "order-1" };
  const { databaseUrl } = t.context;
  const release = await lockRows(t, databaseUrl, "account_limit", "account_id", store.id);

  const plant = () => post("/app/api/plant", headers, { trees: 5 });
  const both = [plant(), plant()];
  await release();
  const [original, replay] = await Promise.all(both);

  t.deepEqual([original?.status, replay?.status], [200, 200]);
  t.is(replay?.text, original?.text);
});

const GIFT = { amount_cents: 500, ein: "530196605", idempotency_key: "gift-1" };

test("a donation that could not be made by now is a replay if it was made before, and the others of its batch are refused", async (t) => {
  const { db } = t.context;
  const { id, post } = await startApiOf(t);
  await post("/charities/subscribe");
  const donate = async (items: readonly object[]) =>
    batchIn(await post("/charities/donate/batch?atomic=false", { items })).results;
  const [original] = await donate([GIFT]);

  const [replay] = await donate([{ ...GIFT, ein: "000000000" }]);
  t.true(replay?.idempotent_replayed);
  t.deepEqual(replay?.body, original?.body);

  await db.query(sql.typeAlias("void")`
    UPDATE donor SET processor = NULL WHERE account_id = ${id}
  `);
  t.deepEqual(statusesOf(await donate([GIFT, { ...GIFT, idempotency_key: "gift-2" }])), [200, 400]);
});
