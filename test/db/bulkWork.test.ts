import { readLatestRecords, reserveBulkTurn } from "../../db/bulkTurns.ts";
import { createBulkPace } from "../../db/createBulkPace.ts";
import type { BulkPace } from "../../db/createBulkPace.ts";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { importHistory } from "../../modules/history/importHistory.ts";
import type { ImportLine } from "../../modules/history/importLine.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { importedTree } from "../history/importedTree.ts";

const test = testWithDatabase();

// oxlint-disable-next-line typescript/require-await -- the import reads an asynchronous stream.
async function* oneLine(): AsyncGenerator<ImportLine> {
  yield { file: "history", number: 1, text: "", record: importedTree };
}

test.serial("nothing is young in an empty database", async (t) => {
  const { ageMs, ...ids } = await readLatestRecords(t.context.db);
  t.deepEqual(ids, { factId: null, recordsPerFact: 1, entryId: null, eventId: null });
  t.true(ageMs > 1e9);
});

test.serial("a registration is a new record, and young; an imported one is neither", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const before = await readLatestRecords(db);
  const { kinds } = await importHistory(
    { db, clock: systemClock, actor: SERVICE },
    { accountId, mode: "live", isStore: false },
    oneLine(),
    { purpose: "import", ordersPlanting: false, charityProvider: "catalogue" },
    { onRejected: () => undefined, onProgress: () => undefined },
  );
  t.is(kinds.tree.new, 1);
  t.is((await readLatestRecords(db)).factId, before.factId);

  const writer = createRegistrationWriter({ db, clock: systemClock });
  await writer.register(registrationOf(accountId));
  const after = await readLatestRecords(db);
  t.not(after.factId, before.factId);
  t.is(after.recordsPerFact, 1);
  // A usage fact knows its second. The rest is for a busy machine.
  t.true(after.ageMs < 60_000, String(after.ageMs));
});

test.serial("the registrations of each of the latest facts are counted", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  for (let batch = 0; batch < 20; batch += 1) {
    await Promise.all([1, 2, 3].map(() => writer.register(registrationOf(accountId))));
  }
  t.is((await readLatestRecords(db)).recordsPerFact, 3);
});

test.serial("turns follow each other across connections", async (t) => {
  const { db, owner } = t.context;
  const first = await reserveBulkTurn(db, 9000);
  const second = await reserveBulkTurn(owner, 100);
  const third = await reserveBulkTurn(db, 100);
  t.is(first.waitMs, 0);
  t.true(second.waitMs > 0 && second.waitMs <= 9000, String(second.waitMs));
  t.true(third.waitMs > 0 && third.waitMs <= 9100, String(third.waitMs));
});

test.serial("a turn far in the future, from before a clock was set back, is ignored", async (t) => {
  const { db } = t.context;
  await db.query(sql.typeAlias("void")`
    UPDATE bulk_turn SET ends_at = now() + interval '1 hour'
  `);
  t.is((await reserveBulkTurn(db, 10)).waitMs, 0);
});

test.serial("a turn that ended long ago leaves no wait", async (t) => {
  const { db } = t.context;
  await db.query(sql.typeAlias("void")`
    UPDATE bulk_turn SET ends_at = now() - interval '1 hour'
  `);
  t.is((await reserveBulkTurn(db, 10)).waitMs, 0);
});

/** A pace with a clock that only pauses and steps move, and what it asked of the database. */
const createScene = ({
  ageMs,
  waitMs = 0,
  limitStep = () => Promise.withResolvers<void>().promise,
}: {
  ageMs: number;
  waitMs?: number;
  limitStep?: (durationMs: number) => Promise<unknown>;
}) => {
  const scene = {
    nowMs: 0,
    factId: 1n,
    recordsPerFact: 1,
    looks: 0,
    turnsMs: [] as number[],
    pausesMs: [] as number[],
  };
  const latest = () => ({
    factId: scene.factId,
    recordsPerFact: scene.recordsPerFact,
    entryId: null,
    eventId: null,
    ageMs,
  });
  const pace = createBulkPace({
    readLatest: () => {
      scene.looks += 1;
      return Promise.resolve(latest());
    },
    reserveTurn: (durationMs) => {
      scene.turnsMs.push(durationMs);
      return Promise.resolve({ ...latest(), waitMs });
    },
    nowMs: () => scene.nowMs,
    pause: (durationMs) => {
      scene.pausesMs.push(durationMs);
      scene.nowMs += durationMs;
      return Promise.resolve();
    },
    limitStep,
  });
  const stepFor = (durationMs: number) => () => {
    scene.nowMs += durationMs;
    return Promise.resolve(scene.nowMs);
  };
  return { scene, pace, stepFor };
};

/** Starts two steps, and returns how many of them have begun before one has ended. */
const countConcurrent = async (pace: BulkPace): Promise<number> => {
  const end = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  let count = 0;
  const step = async (): Promise<void> => {
    count += 1;
    begun.resolve();
    await end.promise;
  };
  const steps = [pace.run(step), pace.run(step)];
  await begun.promise;
  // Whatever is to begin without the end of the first step has begun after these.
  await new Promise(setImmediate);
  const concurrent = count;
  end.resolve();
  await Promise.all(steps);
  return concurrent;
};

test("steps neither wait nor take turns while clients record nothing", async (t) => {
  const { scene, pace, stepFor } = createScene({ ageMs: 60_000, waitMs: 20 });
  await pace.run(stepFor(100));
  await pace.run(stepFor(100));
  t.is(await countConcurrent(pace), 2);
  t.false(pace.isYielding());
  t.deepEqual(scene.turnsMs, []);
  t.is(pace.pausedMs(), 0);
  // Four times a second.
  t.is(scene.looks, 1);
  await pace.run(stepFor(100));
  await pace.run(stepFor(100));
  t.is(scene.looks, 2);
});

test("while clients record, each step waits for a turn that depends on how long the last one took", async (t) => {
  const { scene, pace, stepFor } = createScene({ ageMs: 100, waitMs: 30 });
  await pace.run(stepFor(8));
  await pace.run(stepFor(2));
  await pace.run(stepFor(1));
  t.true(pace.isYielding());
  t.deepEqual(scene.turnsMs, [5, 8, 2]);
  t.deepEqual(scene.pausesMs, [30, 30, 30]);
  t.is(pace.pausedMs(), 90);
  t.is(await countConcurrent(pace), 1);
});

test("a turn has no pause beside 100 records a second, and the whole one from 500 on", async (t) => {
  for (const [recordsPerSecond, turn] of [
    [1, 10],
    [100, 10],
    [250, 25],
    [500, 50],
    [5000, 50],
  ] as const) {
    const { scene, pace, stepFor } = createScene({ ageMs: 100 });
    await pace.run(stepFor(1000));
    scene.factId += BigInt(recordsPerSecond);
    await pace.run(stepFor(10));
    await pace.run(stepFor(10));
    t.is(scene.turnsMs.at(-1), turn, `${recordsPerSecond} records a second`);
  }
});

test("registrations that share a usage fact all count", async (t) => {
  const { scene, pace, stepFor } = createScene({ ageMs: 100 });
  await pace.run(stepFor(1000));
  scene.factId += 5n;
  scene.recordsPerFact = 100;
  await pace.run(stepFor(10));
  await pace.run(stepFor(10));
  t.is(scene.turnsMs.at(-1), 50);
});

test("a step that could not be split delays other bulk work for at most 1.25 seconds", async (t) => {
  const { scene, pace, stepFor } = createScene({ ageMs: 100 });
  await pace.run(stepFor(60_000));
  scene.factId += 60_000n;
  await pace.run(stepFor(1));
  t.deepEqual(scene.turnsMs, [5, 1250]);
});

test("a step that does not end delays the next one of its process for at most 250 ms", async (t) => {
  const limit = Promise.withResolvers<void>();
  const limitsMs: number[] = [];
  const { pace, stepFor } = createScene({
    ageMs: 100,
    limitStep: (durationMs) => {
      limitsMs.push(durationMs);
      return limit.promise;
    },
  });
  const begun = Promise.withResolvers<void>();
  const end = Promise.withResolvers<string>();
  const endless = pace.run(() => {
    begun.resolve();
    return end.promise;
  });
  const next = pace.run(stepFor(5));
  await begun.promise;
  t.deepEqual(limitsMs, [250]);
  limit.resolve();
  t.is(await next, 5);
  end.resolve("ended");
  t.is(await endless, "ended");
});

test("steps within a step do not wait for it", async (t) => {
  const { scene, pace } = createScene({ ageMs: 100 });
  t.is(await pace.run(() => pace.run(() => pace.run(() => Promise.resolve("inner")))), "inner");
  t.is(scene.turnsMs.length, 1);
});

test("a failing step fails alone", async (t) => {
  const { pace, stepFor } = createScene({ ageMs: 100 });
  const failing = pace.run(() => Promise.reject(new Error("broken")));
  const next = pace.run(stepFor(5));
  await t.throwsAsync(failing, { message: "broken" });
  t.is(await next, 5);
});

test("a new record is noticed within a quarter of a second, and the last one is forgotten after 2.5 seconds", async (t) => {
  const { scene, pace, stepFor } = createScene({ ageMs: 60_000 });
  await pace.run(stepFor(250));
  scene.factId += 1n;
  await pace.run(stepFor(10));
  t.true(pace.isYielding());
  await pace.run(stepFor(2400));
  t.true(pace.isYielding());
  await pace.run(stepFor(200));
  t.false(pace.isYielding());
  await pace.run(stepFor(10));
  t.is(scene.turnsMs.length, 3);
});

test("records that are found with the first look count if they are young", async (t) => {
  const young = createScene({ ageMs: 2000 });
  await young.pace.run(young.stepFor(1));
  t.is(young.scene.turnsMs.length, 1);
  const old = createScene({ ageMs: 3000 });
  await old.pace.run(old.stepFor(1));
  t.is(old.scene.turnsMs.length, 0);
});

test("each item but the first is a step, and what is not read is closed", async (t) => {
  const { scene, pace } = createScene({ ageMs: 100 });
  let isClosed = false;
  // oxlint-disable-next-line typescript/require-await -- pages are read asynchronously.
  const readPages = async function* (): AsyncGenerator<number> {
    try {
      yield* [1, 2, 3, 4];
    } finally {
      isClosed = true;
    }
  };
  const read: number[] = [];
  for await (const page of pace.runEach(readPages())) {
    read.push(page);
    if (page === 3) {
      break;
    }
  }
  t.deepEqual(read, [1, 2, 3]);
  t.is(scene.turnsMs.length, 2);
  t.true(isClosed);
});
