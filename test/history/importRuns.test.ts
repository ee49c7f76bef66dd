import type { DatabasePool } from "slonik";
import { z } from "zod";
import { deleteImportRun, insertImportRun } from "../../modules/history/importRuns.sql.ts";
import { readTotals } from "../../modules/registrations/totals.sql.ts";
import { sql } from "../../db/sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { importHistory } from "../../modules/history/importHistory.ts";
import type { ImportLine, Rejection } from "../../modules/history/importLine.ts";
import { isLedgerEqual, verifyImport } from "../../modules/history/verifyImport.ts";
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
): Promise<readonly Rejection[]> => {
  const rejections: Rejection[] = [];
  await importHistory(
    { db, clock: systemClock, actor: SERVICE },
    { accountId, mode: "live" },
    source,
    { isDryRun: false, ordersPlanting: false, charityProvider: "catalogue", isStore: false },
    {
      onRejected: (rejection) => {
        rejections.push(rejection);
      },
      onProgress: () => undefined,
    },
  );
  return rejections;
};

/** Transactions of other sessions in this database. */
const countOpenTransactions = (db: DatabasePool): Promise<bigint> =>
  db.oneFirst(sql.type(z.strictObject({ count: z.bigint() }))`
    SELECT count(*)
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'
  `);

const listRuns = (db: DatabasePool): Promise<readonly string[]> =>
  db.anyFirst(sql.type(z.strictObject({ id: z.uuid() }))`SELECT id FROM import_run`);

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
  await verifyImport(
    { db, clock: systemClock },
    { accountId, mode: "live" },
    source(),
    () => undefined,
  );

  t.deepEqual(seen, [0n, 0n]);
  t.deepEqual(await listRuns(db), [], "they forget what they have read");
});

test.serial(
  "an import ends if the database forgets what it has read, and is completed by running it again",
  async (t) => {
    const { db } = t.context;
    const { id: accountId } = await createTestOrganization(db);
    // They fill a batch, so that some lines are written before the rest is read.
    const first = Array.from({ length: 2000 }, (_, index) => lineOf(index + 1));
    const forget = async (): Promise<void> => {
      // As a crash of PostgreSQL does with unlogged tables.
      for (const run of await listRuns(db)) {
        await deleteImportRun(db, run);
      }
    };

    await t.throwsAsync(importFrom(db, accountId, interrupted(first, forget, [lineOf(2001)])), {
      message: "the database was restarted in between; run the command again",
    });
    await importFrom(
      db,
      accountId,
      interrupted(first, () => Promise.resolve(), [lineOf(2001)]),
    );

    const { registrations, total, registered } = await readAccountSums(db, accountId);
    t.is(registrations, 2001);
    t.is(total, registered);
  },
);

test.serial("an import that fails forgets what it has read", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const message = "the file cannot be read";
  const source = interrupted([lineOf(1)], () => Promise.reject(new Error(message)), []);
  await t.throwsAsync(importFrom(db, accountId, source), { message });
  t.deepEqual(await listRuns(db), []);
});

test.serial("what killed imports have left is deleted after a week", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const now = Date.now();
  const [recent, old] = [crypto.randomUUID(), crypto.randomUUID()];
  await insertImportRun(db, { id: recent, startedAt: new Date(now - 6 * DAY_MS) });
  await insertImportRun(db, { id: old, startedAt: new Date(now - 8 * DAY_MS) });

  await importFrom(
    db,
    accountId,
    interrupted([lineOf(1)], () => Promise.resolve(), []),
  );

  t.deepEqual(await listRuns(db), [recent]);
});

test.serial(
  "of lines with the same id, the first one counts, however far apart they are in a batch",
  async (t) => {
    const { db } = t.context;
    const { id: accountId } = await createTestOrganization(db);
    const middle = Array.from({ length: 1998 }, (_, index) =>
      lineOf(index + 2, { importedId: `other-${index}` }),
    );
    const lines = [
      lineOf(1, { importedId: "same", count: 5 }),
      ...middle,
      lineOf(2000, { importedId: "same", count: 7 }),
    ];

    const rejections = await importFrom(
      db,
      accountId,
      interrupted(lines, () => Promise.resolve(), []),
    );

    t.like(rejections, { length: 1, 0: { outcome: "conflict", line: { number: 2000 } } });
    t.is((await readAccountSums(db, accountId)).total, 2003n);
  },
);

const LINES = 250;

// oxlint-disable-next-line typescript/require-await -- the import reads an asynchronous stream.
async function* readLines(): AsyncGenerator<ImportLine> {
  for (let number = 1; number <= LINES; number += 1) {
    yield lineOf(number, { importedId: `old-${number}`, count: number });
  }
}

test("an import that yields writes small batches, and is as complete as any other", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const owner = { accountId, mode: "live" } as const;
  const pace = createYieldingPace();
  const seen: number[] = [];
  const summary = await importHistory(
    { db, clock: systemClock, actor: SERVICE, pace },
    owner,
    readLines(),
    { isDryRun: false, ordersPlanting: false, charityProvider: "catalogue", isStore: false },
    { onRejected: () => undefined, onProgress: ({ lines }) => seen.push(lines) },
  );

  t.like(summary, { lines: LINES, bad: 0, kinds: { tree: { new: LINES, conflict: 0 } } });
  t.deepEqual(seen, [100, 200, 250]);
  // Each half of a batch, at least, is a step of its own.
  t.true(pace.stepCount() >= 6, String(pace.stepCount()));
  t.is(
    (await readTotals(db, { ...owner, kind: "tree" }, systemClock.now())).all,
    (LINES * (LINES + 1)) / 2,
  );

  const verification = await verifyImport(
    { db, clock: systemClock, pace },
    owner,
    readLines(),
    () => undefined,
  );
  t.like(verification, { lines: LINES, bad: 0, repeated: 0, differences: [], counters: [] });
  t.true(isLedgerEqual(verification));
});
