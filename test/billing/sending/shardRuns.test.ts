import type { DatabasePool } from "slonik";
import { listShardStatuses } from "../../../db/shards.sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { shardOf } from "../../../db/shards.rules.ts";
import { createShardSender } from "../../../modules/billing/sending/createShardSender.ts";
import { createReportingRuns } from "../../../modules/billing/sending/createShardSender.ts";
import { createShardRuns } from "../../../db/createShardRuns.ts";
import { testWithDatabase } from "../../support/database.ts";
import { eventually } from "../../support/programs.ts";
import { runSender, setUpShards } from "./shardSetup.ts";

// Serial, because a shard's sender serves everything that waits in the database of the file.
const test = testWithDatabase();

test.serial("a call that outlasts its run delays only its stream, and is finished", async (t) => {
  const { organizations, pass, double, deps, sends } = await setUpShards(t, 3);
  const [slow, ...others] = organizations;
  if (!slow) {
    throw new Error("There is no organization.");
  }
  double.control.addFault({ kind: "hold", mentioning: slow.customerId });
  const runs = createReportingRuns(deps, {
    onResult: () => undefined,
    onFailure: (_stream, error) => t.fail(String(error)),
    runMs: 100,
  });
  const [stop, abort] = [new AbortController(), new AbortController()];
  const run = (): Promise<void> =>
    runs.run(shardOf(slow.stream.accountId), { stop: stop.signal, signal: abort.signal });
  /** Registers units of all, and runs the shard until it has reported those of the others. */
  const report = async (billed: number): Promise<void> => {
    await Promise.all(organizations.map(({ register }) => register(2)));
    pass(5);
    while (others.some((other) => other.billed() < billed)) {
      await run();
    }
  };
  await report(2);
  t.is(double.control.held(), 1);
  await report(4);
  await report(6);
  t.is(slow.billed(), 0);
  t.is(double.control.held(), 1);

  double.control.release();
  while (slow.billed() < 6) {
    await run();
  }
  stop.abort();
  await runs.end();
  t.is(double.control.overlaps(), 0);
  // No event was sent twice.
  t.is(sends(), 9);
  t.deepEqual(
    organizations.map(({ billed }) => billed()),
    [6, 6, 6],
  );
});

test.serial(
  "a run makes no attempts that were waiting in an earlier one, because another worker may have made them",
  async (t) => {
    const { organizations, pass, sender, reportAll, sends, double } = await setUpShards(t, 6);
    await Promise.all(organizations.map(({ register }) => register(2)));
    pass(5);
    const own = sender(shardOf(organizations[0]?.stream.accountId ?? ""), { callsPerSecond: 16 });
    await own.scan();
    await own.step();
    await own.settled();
    t.is(sends(), 4);
    t.false(own.isIdle());

    await reportAll();
    own.startRun?.();
    await own.step();
    t.true(own.isIdle());
    await runSender(own);
    t.is(sends(), 6);
    t.is(double.control.overlaps(), 0);
  },
);

test.serial(
  "an event whose retry is not due is left alone, although a scan from before its attempt has its stream",
  async (t) => {
    const { organizations, pass, reportOnce, reportAll, sends, double, deps } = await setUpShards(
      t,
      1,
    );
    const [organization] = organizations;
    if (!organization) {
      throw new Error("There is no organization.");
    }
    const { stream, register } = organization;
    double.control.addFault({ kind: "server_error" });
    await register(2);
    pass(5);
    await reportOnce();
    t.is(sends(), 1);
    const own = createShardSender(deps, shardOf(stream.accountId), {
      scans: { ready: () => Promise.resolve(null), resumable: () => Promise.resolve([stream]) },
      signal: new AbortController().signal,
      onResult: () => undefined,
      onFailure: (_stream, error) => t.fail(String(error)),
    });
    await runSender(own);
    t.is(sends(), 1);
    pass(30);
    await runSender(own);
    t.is(sends(), 2);
    await reportAll();
    t.is(organization.billed(), 2);
  },
);

/** Creates runs whose senders have a call in flight until it is aborted. A sender fails if `fails` says so. */
const createFakeRuns = (
  db: DatabasePool,
  fails: () => boolean,
  scan: () => Promise<void> = () => Promise.resolve(),
) => {
  const created: { isAborted: boolean }[] = [];
  const runs = createShardRuns(
    { db, clock: systemClock },
    {
      kind: "webhooks",
      runMs: 1,
      createSender: (_shard, signal) => {
        const sender = { isAborted: false };
        created.push(sender);
        const aborted = Promise.withResolvers<void>();
        signal.addEventListener("abort", () => {
          sender.isAborted = true;
          aborted.resolve();
        });
        return {
          scan,
          step: () => (fails() ? Promise.reject(new Error("unreachable")) : Promise.resolve()),
          waitForWork: () => Promise.resolve(),
          settled: () => aborted.promise,
        };
      },
    },
  );
  return { runs, created };
};

test("a run continues with the sender of the last one, unless that has failed; the end aborts the calls of all", async (t) => {
  let isFailing = false;
  const { runs, created } = createFakeRuns(t.context.db, () => isFailing);
  const signals = { stop: new AbortController().signal, signal: new AbortController().signal };
  await runs.run(0, signals);
  await runs.run(0, signals);
  t.is(created.length, 1);
  isFailing = true;
  await t.throwsAsync(runs.run(0, signals), { message: "unreachable" });
  isFailing = false;
  await runs.run(0, signals);
  t.deepEqual(created, [{ isAborted: false }, { isAborted: false }]);
  await runs.end();
  t.deepEqual(created, [{ isAborted: true }, { isAborted: true }]);
});

test("a run fails with its scan, and then it records no pass", async (t) => {
  const { db } = t.context;
  let isFailing = true;
  const { runs } = createFakeRuns(
    db,
    () => false,
    () => (isFailing ? Promise.reject(new Error("unreachable")) : Promise.resolve()),
  );
  const signals = { stop: new AbortController().signal, signal: new AbortController().signal };
  const passed = async (): Promise<readonly number[]> =>
    (await listShardStatuses(db, "webhooks")).flatMap(({ number, hasPassed }) =>
      hasPassed ? [number] : [],
    );
  await t.throwsAsync(
    async () => {
      for (;;) {
        await runs.run(3, signals);
      }
    },
    { message: "unreachable" },
  );
  isFailing = false;
  // The passes of both would be recorded together. A run may end before its scan.
  await eventually(async () => {
    await runs.run(2, signals);
    return (await passed()).includes(2);
  });
  t.false((await passed()).includes(3));
});

test("a canceled run ends with its calls, and the next one has a new sender", async (t) => {
  const { runs, created } = createFakeRuns(t.context.db, () => false);
  const stop = new AbortController().signal;
  const cancel = new AbortController();
  const canceled = runs.run(0, { stop, signal: cancel.signal });
  cancel.abort();
  await canceled;
  t.deepEqual(created, [{ isAborted: true }]);
  await runs.run(0, { stop, signal: new AbortController().signal });
  t.deepEqual(created, [{ isAborted: true }, { isAborted: false }]);
});

test("a run that was canceled before it began does no work", async (t) => {
  const { runs, created } = createFakeRuns(t.context.db, () => t.fail("it stepped"));
  const cancel = new AbortController();
  cancel.abort();
  await runs.run(0, { stop: new AbortController().signal, signal: cancel.signal });
  t.deepEqual(created, [{ isAborted: true }]);
});
