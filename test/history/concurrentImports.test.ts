import type { DatabaseTransactionConnection } from "slonik";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import type { Operation } from "../../modules/records/idempotencyKeys.rules.ts";
import { keyHash, scopeOf } from "../../modules/records/idempotencyKeys.sql.ts";
import { sql } from "../../db/sql.ts";
import { lockBalances } from "../../modules/stores/stores.sql.ts";
import { insertRegistrations } from "../../modules/registrations/registrations.sql.ts";
import { readTotals } from "../../modules/registrations/totals.sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { newId } from "../../runtime/newId.ts";
import type { Run } from "../cli/runImpact.ts";
import { startStoreApiOf } from "../stores/startStoreApi.ts";
import { EIN } from "../stores/storeState.ts";
import { testWithDatabase } from "../support/database.ts";
import { registrationOf } from "../support/factories.ts";
import { runBehindLocks } from "../support/lockWaits.ts";
import { orderedTree } from "./evidenceLines.ts";
import { lineOf as treeLine } from "./importLine.ts";
import { importForStore, linesOf, setUpImport, summaryOf } from "./importScene.ts";

const test = testWithDatabase();

const lockRegistrations = (accountId: string) => (transaction: DatabaseTransactionConnection) =>
  transaction.query(sql.typeAlias("void")`
    SELECT FROM registration WHERE account_id = ${accountId} FOR UPDATE
  `);

/** Stores the key of a store's write, as an import does. */
const insertStoreKey = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  operation: Operation,
  key: string,
): Promise<void> => {
  const scope = scopeOf({ accountId, mode: "live" }, operation);
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO idempotency_key (key_hash, account_id, mode, operation, record_id)
    SELECT ${keyHash(scope, sql.fragment`${key}::text`)}, ${accountId}, 'live', ${operation},
      (SELECT id FROM registration WHERE account_id = ${accountId} LIMIT 1)
  `);
};

const SOURCE = ["--source", "old.example"];

test("concurrent imports of a tree's evidence count the tree once", async (t) => {
  const { db } = t.context;
  const { id: accountId, importText } = await setUpImport(t);
  const [tree = "", ...evidence] = orderedTree("a", 1001);
  await importText(linesOf(tree));

  const [first, second] = await runBehindLocks<[Run, Run]>(
    db,
    lockRegistrations(accountId),
    () => importText(linesOf(...evidence), ...SOURCE),
    () => importText(linesOf(...evidence), ...SOURCE),
  );

  t.like(summaryOf(first), { new: 1, known: 0 }, first.stderr);
  t.like(summaryOf(second), { new: 0, known: 1 }, second.stderr);
  const orders = await listPlantingOrders(db, { accountId, limit: 2 });
  const treeCounts = orders.map(({ treeCount }) => treeCount);
  t.deepEqual(treeCounts, [4]);
});

test("a reversal that an import waits for makes the line a conflict", async (t) => {
  const { db, get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const importLines = (refunded: number) => {
    const line = treeLine({ id: "a", count: 4, refunded_count: refunded, unit_price_cents: 10 });
    return importForStore(t, store.domain, [line]);
  };
  await importLines(0);

  const [reversal, run] = await runBehindLocks<[{ readonly status: number }, Run]>(
    db,
    lockRegistrations(store.id),
    () => post("/app/api/refund", store.live, { type: "tree", quantity: 1 }),
    () => importLines(2),
  );

  t.is(reversal.status, 200);
  t.like(summaryOf(run), { refunded: 0, conflict: 1 }, run.stderr);
  t.regex(run.stderr, /the record changed in the meantime; import the line again$/mu);
  t.like((await get("/app/api/impact/stats", store.live)).body, { trees: 3 });
});

test("a key that a store uses while its import runs is a conflict", async (t) => {
  const { db, get, store } = await startStoreApiOf(t);
  const lines = ["a", "b"].map((id) => treeLine({ id, unit_price_cents: 10, idempotency_key: id }));
  await importForStore(t, store.domain, [treeLine({ id: "c", unit_price_cents: 10 })]);

  const [run] = await runBehindLocks<[Run]>(
    db,
    (transaction) => insertStoreKey(transaction, store.id, "plant", "b"),
    () => importForStore(t, store.domain, lines),
  );

  t.like(summaryOf(run), { new: 1, conflict: 1 }, run.stderr);
  t.like((await get("/app/api/impact/stats", store.live)).body, { trees: 2 });
});

test("a key that an organization uses while its import runs is a conflict", async (t) => {
  const { db } = t.context;
  const { id: accountId, importText } = await setUpImport(t);
  const lines = ["a", "b"].map((id) => treeLine({ id, idempotency_key: id }));
  const entry = { ...registrationOf(accountId, { count: 9, idempotencyKey: "b" }), id: newId() };

  const [run] = await runBehindLocks<[Run]>(
    db,
    (transaction) => insertRegistrations(transaction, [entry], systemClock.now()),
    () => importText(linesOf(...lines)),
  );

  t.like(summaryOf(run), { new: 1, conflict: 1 }, run.stderr);
  t.is((await readTotals(db, entry, systemClock.now())).all, 9 + 1);
});

for (const { operation, body } of [
  // Makes the balance low, so that it is decided under the lock of the balance.
  { operation: "plant", body: { trees: 4 } },
  { operation: "donate", body: { charity_id: EIN, amount_dollars: 2 } },
] as const) {
  test(`a ${operation} whose key an import stores meanwhile is replayed`, async (t) => {
    const given = { balanceCents: 1000, lowBalanceCents: 900 };
    const { db, get, post, store } = await startStoreApiOf(t, { store: given });
    const path = operation === "plant" ? "/app/api/plant" : "/app/api/charity/donate";

    const [response] = await runBehindLocks<[unknown]>(
      db,
      async (transaction) => {
        await lockBalances(transaction, [store.id]);
        await insertStoreKey(transaction, store.id, operation, "k");
      },
      () => post(path, { ...store.live, "Idempotency-Key": "k" }, body),
    );

    t.like(response, { status: 200, replayed: "true" });
    t.like((await get("/app/api/balance", store.live)).body, { balance_cents: 1000 });
  });
}
