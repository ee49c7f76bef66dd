import type { DatabasePool } from "slonik";
import { v7 } from "uuid";
import { z } from "zod";
import { unhurriedPace } from "../../db/createBulkPace.ts";
import type { BulkPace } from "../../db/createBulkPace.ts";
import { addEqualRecords } from "../../modules/history/importLines.sql.ts";
import { readTotals } from "../../modules/registrations/totals.sql.ts";
import { sql } from "../../db/sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { importHistory } from "../../modules/history/importHistory.ts";
import type { ImportLine, Rejection } from "../../modules/history/importLine.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { createYieldingPace } from "../support/bulkPaces.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { importedTree } from "./importedTree.ts";

const test = testWithDatabase();

const DAY_MS = 24 * 60 * 60 * 1000;

const lineOf = (number: number, fields: Partial<typeof importedTree> = {}): ImportLine => ({
  file: "history",
  number,
  text: "",
  record: { ...importedTree, ...fields },
});

/** Yields lines, and runs a function when those before its place have been imported. */
async function* interrupted(
  first: readonly ImportLine[],
  between: () => Promise<void>,
  second: readonly ImportLine[],
): AsyncGenerator<ImportLine, void, void> {
  yield* first;
  await between();
  yield* second;
}

const importFrom = async (
  db: DatabasePool,
  accountId: string,
  source: AsyncIterable<ImportLine>,
  purpose: "import" | "verification" = "import",
  pace: BulkPace = unhurriedPace,
) => {
  const rejections: Rejection[] = [];
  const seen: number[] = [];
  const summary = await importHistory(
    { db, clock: systemClock, actor: SERVICE, pace },
    { accountId, mode: "live", isStore: false },
    source,
    { purpose, ordersPlanting: false, charityProvider: "catalogue" },
    {
      onRejected: (rejection) => {
        rejections.push(rejection);
      },
      onProgress: ({ lines }) => seen.push(lines),
    },
  );
  return { summary, rejections, seen };
};

/** Transactions of other sessions in this database. */
const countOpenTransactions = (db: DatabasePool): Promise<bigint> =>
  db.oneFirst(sql.type(z.strictObject({ count: z.bigint() }))`
    SELECT count(*)
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'
  `);

const listRuns = (db: DatabasePool): Promise<readonly string[]> =>
  db.anyFirst(
    sql.type(z.strictObject({ id: z.uuid() }))`SELECT DISTINCT run_id AS id FROM import_line`,
  );

test.serial("an import and a verification that wait for lines open no transaction", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const seen: bigint[] = [];
  const source = (): AsyncGenerator<ImportLine, void, void> =>
    interrupted(
      [lineOf(1)],
      async () => {
        seen.push(await countOpenTransactions(db));
      },
      [lineOf(2)],
    );

  await importFrom(db, accountId, source());
  await importFrom(db, accountId, source(), "verification");

  t.deepEqual(seen, [0n, 0n]);
  t.deepEqual(await listRuns(db), [], "they forget what they have read");
});

test.serial(
  "an import that fails forgets what it has read, and what others have left for a week",
  async (t) => {
    const { db } = t.context;
    const { id: accountId } = await createTestOrganization(db);
    const now = Date.now();
    const [recent = "", old = ""] = [6, 8].map((days) => v7({ msecs: now - days * DAY_MS }));
    for (const run of [recent, old]) {
      await addEqualRecords(db, run, new Map([[crypto.randomUUID(), 1]]));
    }
    const message = "the file cannot be read";
    const source = interrupted([lineOf(1)], () => Promise.reject(new Error(message)), []);

    await t.throwsAsync(importFrom(db, accountId, source), { message });

    t.deepEqual(await listRuns(db), [recent]);
    t.is(
      (await readAccountSums(db, accountId)).registrations,
      1,
      "lines before the error are imported",
    );
  },
);

const LINES = 250;

// oxlint-disable-next-line typescript/require-await -- the import reads an asynchronous stream.
async function* readLines(): AsyncGenerator<ImportLine> {
  for (let number = 1; number <= LINES; number += 1) {
    yield lineOf(number, { imported_id: `old-${number}`, count: number });
  }
}

test("an import that yields writes small batches, and is as complete as any other", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const pace = createYieldingPace();
  const { summary, seen } = await importFrom(db, accountId, readLines(), "import", pace);

  t.like(summary, { lines: LINES, bad: 0, kinds: { tree: { new: LINES, conflict: 0 } } });
  t.deepEqual(seen, [100, 200, 250]);
  // Each batch, at least, is a step.
  t.true(pace.stepCount() >= 3, String(pace.stepCount()));
  const owner = { accountId, mode: "live", kind: "tree" } as const;
  t.is((await readTotals(db, owner, systemClock.now())).all, (LINES * (LINES + 1)) / 2);

  const verified = await importFrom(db, accountId, readLines(), "verification", pace);
  t.like(verified.summary, { kinds: { tree: { already_there: LINES } }, records: { tree: LINES } });
  t.deepEqual(verified.rejections, []);
});
