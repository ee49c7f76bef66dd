import type { CachedTree } from "../../../modules/planting/treeEvidence.sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { createCachedTreeLookup } from "../../../modules/planting/createCachedTreeLookup.ts";
import { testWithDatabase } from "../../support/database.ts";

const test = testWithDatabase();

test.serial("a query that ends late does not give its text to a later version", async (t) => {
  const answers: ((rows: readonly CachedTree[]) => void)[] = [];
  const db = new Proxy(t.context.db, {
    get: () => () =>
      new Promise((resolve) => {
        answers.push(resolve);
      }),
  });
  const find = createCachedTreeLookup({
    db,
    clock: systemClock,
    publicBaseUrl: () => "https://impact.example",
  });
  const untilQueries = async (count: number): Promise<void> => {
    while (answers.length < count) {
      await new Promise(setImmediate);
    }
  };
  const tree = { accountId: crypto.randomUUID(), mode: "live", id: crypto.randomUUID() } as const;
  const answer = (query: number, version: string, body: string | null): void =>
    answers[query]?.([
      {
        position: 0,
        version,
        body,
        storedAt: new Date(0),
        timeline: "allocations",
        stage: "planted",
        isFinished: false,
        partner: "manual",
      },
    ]);

  const first = find(tree);
  await untilQueries(1);
  const second = find(tree);
  await untilQueries(2);
  answer(1, "2", "new");
  t.is((await second)?.body, "new");
  const third = find(tree);
  await untilQueries(3);
  answer(0, "1", "old");
  t.is((await first)?.body, "old");
  answer(2, "2", null);
  t.is((await third)?.body, "new");
});
