import type { ExecutionContext } from "ava";
import { systemClock } from "../../runtime/clock.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { sql } from "../../db/sql.ts";
import { updateStore } from "../../modules/stores/stores.sql.ts";
import { updateOrganization } from "../../modules/accounts/updateOrganization.ts";
import { batchIn } from "../api/batches.ts";
import { startStandaloneApi, startApiOf } from "../api/startStandaloneApi.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createHoldingGuard } from "./createHoldingGuard.ts";

const test = testWithDatabase();

const FRACTION = { count: 2, fractional_count: 1.25 };
const ITEM = { ...FRACTION, idempotency_key: "order-1" };

/** Sends a registration with a fraction, and again once fractions are refused, while the first one is being written. */
const repeatRefused = async (
  t: ExecutionContext<DatabaseContext>,
  path: string,
  body: object,
  second: object = body,
) => {
  const { db } = t.context;
  const held = createHoldingGuard();
  const { id, apiKeyProd: key } = await createTestOrganization(db, { fractionalCounting: true });
  const before = await startStandaloneApi(t, { db, guard: held.guard });
  const first = await held.sendHeld(() => before.call("POST", path, { key, body }));
  await updateOrganization({ db, clock: systemClock, actor: SERVICE }, id, {
    fractionalCounting: false,
  });
  const after = await startStandaloneApi(t, { db, guard: held.guard });
  const retry = await held.send(() => after.call("POST", path, { key, body: second }));
  t.is(held.lookups(), 0, "the retry waits");
  return { held, first: first.response, retry: retry.response };
};

test("a registration that is refused meanwhile waits for its first request, and returns its record", async (t) => {
  const { held, first, retry } = await repeatRefused(t, "/plant/trees", ITEM);
  held.write();

  const [original, replay] = await Promise.all([first, retry]);
  t.deepEqual([original.status, replay.status], [200, 200]);
  t.is(replay.headers.get("Idempotent-Replayed"), "true");
  t.deepEqual(replay.body["tree_details"], original.body["tree_details"]);
});

test("a refused registration is rejected if its first request fails", async (t) => {
  const { held, first, retry } = await repeatRefused(t, "/plant/trees", ITEM);
  held.fail();

  t.is((await first).status, 503);
  const refused = await retry;
  t.is(refused.status, 400);
  t.regex(String(refused.body["error"]), /^fractional_count: .*not enabled/u);
});

test("a batch with a refused item waits for the item's first request", async (t) => {
  const other = { ...FRACTION, idempotency_key: "order-2" };
  const { held, first, retry } = await repeatRefused(
    t,
    "/plant/trees/batch?atomic=false",
    { items: [ITEM] },
    { items: [ITEM, other] },
  );
  held.write();

  t.is((await first).status, 200);
  const { results } = batchIn(await retry);
  t.deepEqual(
    results.map(({ status }) => status),
    [200, 400],
  );
  t.true(results[0]?.idempotent_replayed);
});

for (const [path, body, feature] of [
  ["/app/api/plant", { trees: 5 }, "treePlanting"],
  ["/app/api/charity/donate", { charity_id: "53-0196605", amount: 5 }, "donations"],
] as const) {
  test(`a POST ${path} that is disabled before it is written is refused like its retry, and is recorded once enabled`, async (t) => {
    const { db } = t.context;
    const held = createHoldingGuard();
    const store = await createTestStore(db, { balanceCents: 10_000 });
    const headers = { ...store.live, "Idempotency-Key": "order-1" };
    const before = await startStoreApi(t, { db, guard: held.guard });
    const first = await held.sendHeld(() => before.post(path, headers, body));
    await updateStore(db, store.id, { [feature]: false });
    const after = await startStoreApi(t, { db, guard: held.guard });
    const retry = await held.send(() => after.post(path, headers, body));
    held.write();

    const responses = await Promise.all([first.response, retry.response]);
    t.deepEqual(
      responses.map(({ status }) => status),
      [403, 403],
    );
    await updateStore(db, store.id, { [feature]: true });
    const recorded = await after.post(path, headers, body);
    t.is(recorded.status, 200);
    t.is(recorded.headers.get("Idempotent-Replayed"), null);
  });
}

const GIFT = { amount_cents: 500, ein: "530196605", idempotency_key: "gift-1" };
const UNKNOWN_CHARITY = { ein: "000000000" };

/** Sends a batch of donations, and another one that fails while the first one is being written. */
const repeatDonations = async (
  t: ExecutionContext<DatabaseContext>,
  items: readonly object[],
  query = "",
) => {
  const { db } = t.context;
  const held = createHoldingGuard();
  const { call, id, key } = await startApiOf(t, { guard: held.guard });
  await call("POST", "/charities/subscribe", { key });
  const path = `/charities/donate/batch${query}`;
  const setActive = (activeSince: string | null) =>
    db.query(sql.typeAlias("void")`
      UPDATE donor SET active_since = ${activeSince} WHERE account_id = ${id}
    `);
  const first = await held.sendHeld(() => call("POST", path, { key, body: { items: [GIFT] } }));
  return {
    endSubscription: () => setActive(null),
    renewSubscription: () => setActive("2026-01-01"),
    retry: async () => {
      const { response } = await held.send(() => call("POST", path, { key, body: { items } }));
      // Without an earlier request it waits for none. A retry that does not wait has failed by then, too.
      const other = { ...GIFT, ...UNKNOWN_CHARITY, idempotency_key: "gift-2" };
      t.not((await call("POST", "/charities/donate", { key, body: other })).status, 200);
      return {
        finish: async () => {
          held.write();
          return { original: await first.response, replay: await response };
        },
      };
    },
  };
};

test("a batch of donations whose charity fails waits for its first request, and returns its record", async (t) => {
  const items = [{ ...GIFT, ...UNKNOWN_CHARITY }];
  const { retry } = await repeatDonations(t, items);
  const { original, replay } = await (await retry()).finish();

  t.deepEqual([original.status, replay.status], [200, 200]);
  const [before, after] = [original, replay].map((response) => batchIn(response).results[0]);
  t.true(after?.idempotent_replayed);
  t.deepEqual(after?.body, before?.body);
});

test("of a batch of donations without a subscription, only items that no earlier request records are rejected", async (t) => {
  const items = [GIFT, { ...GIFT, idempotency_key: "gift-3" }];
  const { endSubscription, renewSubscription, retry } = await repeatDonations(
    t,
    items,
    "?atomic=false",
  );
  await endSubscription();
  const { finish } = await retry();
  await renewSubscription();
  const { original, replay } = await finish();

  t.is(original.status, 200);
  t.deepEqual(
    batchIn(replay).results.map(({ status }) => status),
    [200, 400],
  );
});
