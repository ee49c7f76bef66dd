import {
  insertReconciliation,
  listReconciliationStreams,
  replaceReconciliationStreams,
} from "../../modules/billing/reconciliation/reconciliations.sql.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";

const test = testWithDatabase();

/** More than one statement inserts. */
const STREAMS = 1500;

type NewStream = Parameters<typeof replaceReconciliationStreams>[2][number];

const streamOf = (index: number, accountIds: NewStream["accountIds"]): NewStream => ({
  kind: "bottle",
  customerId: `cus_${String(index).padStart(4, "0")}`,
  accountIds,
  accountName: 'Shop "2", Shop 1',
  delivered: index,
  processorQuantity: index % 3 === 0 ? null : -index,
  error: index % 3 === 0 ? "the processor is down\nuntil later" : null,
});

test("a few statements store the streams of a reconciliation, and replace those of the poll before", async (t) => {
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
  const { id: first } = await createTestOrganization(db, { name: 'Shop "2"' });
  const { id: second } = await createTestOrganization(db, { name: "Shop 1" });
  const given = Array.from({ length: STREAMS }, (_, index) => streamOf(index, [first, second]));
  await db.transaction((transaction) =>
    replaceReconciliationStreams(transaction, id, given.toReversed()),
  );
  queries.length = 0;

  await db.transaction((transaction) => replaceReconciliationStreams(transaction, id, given));

  t.true(queries.length < 10, `${queries.length} queries`);
  const stored = await listReconciliationStreams(db, id);
  t.deepEqual(stored, given);
});
