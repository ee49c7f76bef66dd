import type { DatabasePool } from "slonik";
import type { PerpetualKind } from "../../../runtime/perpetualWork.rules.ts";
import { listLastPasses } from "../../../db/perpetualWork.sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { pause } from "../../../runtime/waiting.ts";
import { createReportingRuns } from "../../../modules/billing/sending/createUsageSender.ts";
import { createRuns } from "../../../db/createRuns.ts";
import { testWithDatabase } from "../../support/database.ts";
import { eventually } from "../../support/programs.ts";
import { setUpSending } from "./sendingSetup.ts";
import { runSender } from "../../support/runSender.ts";

// Serial, because a sender serves everything that waits in the database of the file.
const test = testWithDatabase();

test.serial("a call that outlasts its run delays only its stream, and is finished", async (t) => {
  const { first: slow, organizations, billedUnits, ...setup } = await setUpSending(t, 3);
  const { registerAll, double, deps, sends } = setup;
  const others = organizations.slice(1);
  double.control.addFault({ kind: "hold", mentioning: slow.customerId });
  const runs = createReportingRuns(deps, {
    onResult: () => undefined,
    onFailure: (_stream, error) => t.fail(String(error)),
    runMs: 100,
  });
  const [stop, abort] = [new AbortController(), new AbortController()];
  const run = (): Promise<void> => runs.run({ stop: stop.signal, signal: abort.signal });
  /** Registers units of all, and runs the sender until it has reported those of the others. */
  const report = async (billed: number): Promise<void> => {
    await registerAll();
    while (others.some((other) => other.units() < billed)) {
      await run();
    }
  };
  await report(2);
  t.is(double.control.held(), 1);
  await report(4);
  await report(6);
  t.is(slow.units(), 0);
  t.is(double.control.held(), 1);

  double.control.release();
  while (slow.units() < 6) {
    await run();
  }
  stop.abort();
  await runs.end();
  t.is(double.control.overlaps(), 0);
  // No event was sent twice.
  t.is(sends(), 9);
  t.deepEqual(billedUnits(), [6, 6, 6]);
});

test.serial("a sender sends nothing that another worker has sent meanwhile", async (t) => {
  const { registerAll, sender, reportOnce, sends, double } = await setUpSending(t, 6);
  await registerAll();
  const own = sender({ callsPerSecond: 4 });
  await own.scan();
  await eventually(() => sends() > 0);
  t.true(sends() < 6);

  // No time passes: the lease of a call in flight would end, and the other worker would repeat it.
  await reportOnce();
  await runSender(own);
  t.is(sends(), 6);
  t.is(double.control.overlaps(), 0);
});

const succeed = () => Promise.resolve();
const fail = () => Promise.reject(new Error("unreachable"));

/** Creates runs that find an item, whose call is in flight until it is aborted. */
const createFakeRuns = (db: DatabasePool, kind: PerpetualKind = "webhook-sender") => {
  const calls: { isAborted: boolean }[] = [];
  const fake = {
    /** What a scan does before it finds the item. */
    scan: succeed,
    scans: 0,
    calls,
    ...createRuns(
      { db, clock: systemClock },
      {
        kind,
        runMs: 1,
        work: {
          scan: async () => {
            await fake.scan();
            fake.scans += 1;
            return ["item"];
          },
          keyOf: String,
          loop: (_item, { signal }) => {
            const call = { isAborted: false };
            calls.push(call);
            const aborted = Promise.withResolvers<void>();
            signal.addEventListener("abort", () => {
              call.isAborted = true;
              aborted.resolve();
            });
            return aborted.promise;
          },
        },
      },
    ),
  };
  const stop = new AbortController().signal;
  const run = (signal = stop): Promise<void> => fake.run({ stop, signal });
  return {
    fake,
    /** Runs until a condition holds. A run may end before its scan. */
    runUntil: async (isDone: () => boolean | Promise<boolean>, signal = stop): Promise<void> => {
      while (!(await isDone())) {
        await run(signal);
      }
    },
  };
};

test("a run continues with the calls of the last one, even of one that has failed, and the end aborts them", async (t) => {
  const { fake, runUntil } = createFakeRuns(t.context.db);
  await runUntil(() => fake.calls.length > 0);
  fake.scan = fail;
  await t.throwsAsync(
    runUntil(() => false),
    { message: "unreachable" },
  );
  fake.scan = succeed;
  await runUntil(() => fake.scans > 1);
  t.deepEqual(fake.calls, [{ isAborted: false }]);
  await fake.end();
  t.deepEqual(fake.calls, [{ isAborted: true }]);
});

test("a run fails with its scan, and then it records no pass", async (t) => {
  const { db } = t.context;
  const { fake, runUntil } = createFakeRuns(db, "dispatcher");
  const hasPassed = async (): Promise<boolean> =>
    (await listLastPasses(db)).some((each) => each.kind === "dispatcher" && each.hasPassed);
  fake.scan = fail;
  await t.throwsAsync(
    runUntil(() => false),
    { message: "unreachable" },
  );
  t.false(await hasPassed());
  fake.scan = succeed;
  await runUntil(hasPassed);
  t.true(await hasPassed());
});

test("loops go on for three seconds after a run that none continued, and begin nothing when the runs end", async (t) => {
  let [isActive, stepped] = [false, 0];
  let ends = 0;
  const runs = createRuns(
    { db: t.context.db, clock: systemClock },
    {
      kind: "webhook-sender",
      runMs: 100,
      work: {
        scan: () => Promise.resolve(["item"]),
        keyOf: String,
        loop: async (_item, { mayBegin, signal }) => {
          isActive = true;
          while (mayBegin()) {
            stepped = performance.now();
            await pause(20, signal);
          }
          isActive = false;
        },
        onEnd: () => {
          ends += 1;
        },
      },
    },
  );
  const never = new AbortController().signal;
  const run = (): Promise<void> => runs.run({ stop: never, signal: never });
  await run();
  await pause(2000, never);
  t.true(isActive);
  await run();
  const ranUntil = performance.now();
  await eventually(() => !isActive);
  t.true(stepped - ranUntil > 2500 && stepped - ranUntil < 4000, `${stepped - ranUntil} ms`);
  t.is(ends, 1);

  await run();
  t.true(isActive);
  await runs.end();
  t.false(isActive);
  t.is(ends, 2);
});

test("a canceled run ends with its calls, and the next one has new ones", async (t) => {
  const { fake, runUntil } = createFakeRuns(t.context.db);
  await runUntil(() => fake.calls.length > 0);
  const cancel = new AbortController();
  cancel.abort();
  await runUntil(() => fake.calls[0]?.isAborted === true, cancel.signal);
  t.deepEqual(fake.calls, [{ isAborted: true }]);
  await runUntil(() => fake.calls.length > 1);
  t.deepEqual(fake.calls, [{ isAborted: true }, { isAborted: false }]);
});
