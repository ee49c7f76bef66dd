import { sql } from "../../db/sql.ts";
import { updateStore } from "../../modules/stores/stores.sql.ts";
import { batchIn } from "../api/batches.ts";
import { startApiOf } from "../api/startStandaloneApi.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

for (const [path, body, feature] of [
  ["/app/api/plant", { trees: 5 }, "treePlanting"],
  ["/app/api/charity/donate", { charity_id: "53-0196605", amount: 5 }, "donations"],
] as const) {
  test(`a POST ${path} that is disabled is refused, is recorded once enabled, and is then a replay`, async (t) => {
    const { db } = t.context;
    const store = await createTestStore(db, { balanceCents: 10_000 });
    const headers = { ...store.live, "Idempotency-Key": "order-1" };
    const send = async (isEnabled: boolean) => {
      await updateStore(db, store.id, { [feature]: isEnabled });
      return (await startStoreApi(t, { db })).post(path, headers, body);
    };

    t.is((await send(false)).status, 403);
    const recorded = await send(true);
    t.is(recorded.status, 200);
    t.is(recorded.headers.get("Idempotent-Replayed"), null);
    const replay = await send(false);
    t.is(replay.headers.get("Idempotent-Replayed"), "true");
    t.is(replay.text, recorded.text);
  });
}

const GIFT = { amount_cents: 500, ein: "530196605", idempotency_key: "gift-1" };

test("a donation that could not be made by now is a replay if it was made before, and the others of its batch are refused", async (t) => {
  const { db } = t.context;
  const { call, id, key } = await startApiOf(t);
  await call("POST", "/charities/subscribe", { key });
  const donate = async (items: readonly object[]) =>
    batchIn(await call("POST", "/charities/donate/batch?atomic=false", { key, body: { items } }))
      .results;
  const [original] = await donate([GIFT]);

  const [replay] = await donate([{ ...GIFT, ein: "000000000" }]);
  t.true(replay?.idempotent_replayed);
  t.deepEqual(replay?.body, original?.body);

  await db.query(sql.typeAlias("void")`
    UPDATE donor SET active_since = NULL WHERE account_id = ${id}
  `);
  const results = await donate([GIFT, { ...GIFT, idempotency_key: "gift-2" }]);
  t.deepEqual(
    results.map(({ status }) => status),
    [200, 400],
  );
});
