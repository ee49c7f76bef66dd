import {
  insertReconciliation,
  listReconciliationDifferences,
  listReconciliationStreams,
  replaceReconciliationStreams,
} from "../../modules/billing/reconciliation/reconciliations.sql.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

/** More than one statement inserts. */
const STREAMS = 1500;

type NewStream = Parameters<typeof replaceReconciliationStreams>[2][number];

const streamOf = (index: number): NewStream => ({
  processor: index % 2 === 0 ? "stripe" : "ledger",
  mode: "live",
  kind: "bottle",
  customerId: index % 2 === 0 ? `cus_${index}` : null,
  accountIds: [crypto.randomUUID(), crypto.randomUUID()],
  accountName: `Shop "${index}", ${index}`,
  delivered: index,
  pending: 1,
  failed: 2,
  processorQuantity: index % 3 === 0 ? null : -index,
  acknowledged: 3,
  error: index % 3 === 0 ? "the processor is down\nuntil later" : null,
  errorIsTemporary: index % 3 === 0,
  differences: Array.from({ length: index % 3 }, (_, number) => ({
    minute: 60 * number,
    ours: index,
    processor: -index,
    mayLag: number === 0,
  })),
});

test("a few statements store the streams of a reconciliation, in their order and with their differences", async (t) => {
  const queries: string[] = [];
  const db = await openTestPool(t, t.context.databaseUrl, 1, {
    interceptors: [
      {
        name: "note-queries",
        beforeQueryExecution: (_context, query) => {
          queries.push(query.sql);
          return null;
        },
      },
    ],
  });
  const id = crypto.randomUUID();
  const span = { start: 0, end: 60 };
  await insertReconciliation(db, { id, isComplete: true, span, startedAt: new Date() });
  const given = Array.from({ length: STREAMS }, (_, index) => streamOf(index));
  await db.transaction((transaction) =>
    replaceReconciliationStreams(transaction, id, given.toReversed()),
  );
  queries.length = 0;

  await db.transaction((transaction) => replaceReconciliationStreams(transaction, id, given));

  t.true(queries.length < 10, `${queries.length} queries`);
  const stored = await listReconciliationStreams(db, id);
  t.deepEqual(
    stored.map(({ id: _id, ...stream }) => stream),
    given.map(({ differences: _differences, ...stream }) => stream),
  );
  for (const index of [0, 1, 1498, 1499]) {
    const differences = await listReconciliationDifferences(db, stored[index]?.id ?? 0n);
    t.deepEqual(
      differences.map(({ id: _id, ...difference }) => difference),
      given[index]?.differences,
    );
  }
});
