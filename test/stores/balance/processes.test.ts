import type { ExecutionContext } from "ava";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { startProgram } from "../../support/programs.ts";
import { createTestStore } from "../startStoreApi.ts";
import type { TestStore } from "../startStoreApi.ts";
import { readStoreState } from "../storeState.ts";

const test = testWithDatabase();

const startApi = (t: ExecutionContext<DatabaseContext>) =>
  startProgram(t, "api/main.ts", {
    DATABASE_URL: t.context.databaseUrl,
    // Nothing of what a store writes waits for Temporal.
    TEMPORAL_ADDRESS: "127.0.0.1:1",
  });

/** The status of a planting and its text, or null when the process went away before it answered. */
const plant = async (
  address: string | undefined,
  store: TestStore,
  key: string,
): Promise<{ readonly status: number; readonly text: string } | null> => {
  try {
    const response = await fetch(`${address}/app/api/plant`, {
      method: "POST",
      headers: { ...store.live, "Content-Type": "application/json", "Idempotency-Key": key },
      body: JSON.stringify({ trees: 1, order_id: key }),
    });
    return { status: response.status, text: await response.text() };
  } catch {
    return null;
  }
};

test("a process that is killed under load loses and doubles nothing that its clients repeat elsewhere", async (t) => {
  const { db } = t.context;
  const [victim, survivor] = [await startApi(t), await startApi(t)];
  const store = await createTestStore(db, { balanceCents: 10_000 });
  const keys = Array.from({ length: 300 }, (_, index) => `key-${index}`);

  const first = Promise.all(keys.map((key) => plant(victim.urls["store"], store, key)));
  while ((await readStoreState(db, store.id)).registrations === 0) {
    // In the middle of it: as soon as something is on record.
  }
  await victim.kill();
  const answered = await first;
  const repeated = await Promise.all(keys.map((key) => plant(survivor.urls["store"], store, key)));

  // 10,000 cents are 200 trees.
  t.is(repeated.filter((answer) => answer?.status === 200).length, 200);
  t.is(repeated.filter((answer) => answer?.status === 402).length, 100);
  for (const [index, answer] of answered.entries()) {
    if (answer?.status === 200) {
      t.is(repeated[index]?.text, answer.text);
    }
  }
  t.like(await readStoreState(db, store.id), {
    balance: 0,
    registrations: 200,
    remaining: 200,
    totals: 200,
    responses: 200,
    entries: 201,
    brokenLinks: 0,
  });
});
