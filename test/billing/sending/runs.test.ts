import type { DatabasePool } from "slonik";
import type { PerpetualKind } from "../../../runtime/perpetualWork.rules.ts";
import { listLastPasses } from "../../../db/perpetualWork.sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { createReportingRuns } from "../../../modules/billing/sending/createUsageSender.ts";
import { createRuns } from "../../../db/createRuns.ts";
import { testWithDatabase } from "../../support/database.ts";
import { eventually } from "../../support/programs.ts";
import { runSender, setUpSending } from "./sendingSetup.ts";

// Serial, because a sender serves everything that waits in the database of the file.
const test = testWithDatabase();

test.serial("a call that outlasts its run delays only its stream, and is finished", async (t) => {
  const { first: slow, organizations, billedUnits, ...setup } = await setUpSending(t, 3);
  const { pass, double, deps, sends } = setup;
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
  t.deepEqual(billedUnits(), [6, 6, 6]);
});

test.serial("a sender sends nothing that another worker has sent meanwhile", async (t) => {
  const { organizations, pass, sender, reportAll, sends, double } = await setUpSending(t, 6);
  await Promise.all(organizations.map(({ register }) => register(2)));
  pass(5);
  const own = sender({ callsPerSecond: 4 });
  await own.scan();
  await eventually(() => sends() > 0);
  t.false(own.isIdle());

  await reportAll();
  await runSender(own);
  t.is(sends(), 6);
  t.is(double.control.overlaps(), 0);
});

const succeed = () => Promise.resolve();
const fail = () => Promise.reject(new Error("unreachable"));

/** Creates runs whose senders have a call in flight until it is aborted. */
const createFakeRuns = (
  db: DatabasePool,
  {
    kind = "webhook-sender",
    step = succeed,
    scan = succeed,
  }: {
    readonly kind?: PerpetualKind;
    readonly step?: () => Promise<void>;
    readonly scan?: () => Promise<void>;
  } = {},
) => {
  const created: { isAborted: boolean }[] = [];
  const runs = createRuns(
    { db, clock: systemClock },
    {
      kind,
      runMs: 1,
      createSender: (signal) => {
        const sender = { isAborted: false };
        created.push(sender);
        const aborted = Promise.withResolvers<void>();
        signal.addEventListener("abort", () => {
          sender.isAborted = true;
          aborted.resolve();
        });
        return { scan, step, waitForWork: () => Promise.resolve(), settled: () => aborted.promise };
      },
    },
  );
  const stop = new AbortController().signal;
  return { created, ...runs, run: (signal = stop) => runs.run({ stop, signal }) };
};

test("a run continues with the sender of the last one, even of one that has failed, and the end aborts its calls", async (t) => {
  let step: () => Promise<void> = succeed;
  const { run, end, created } = createFakeRuns(t.context.db, { step: () => step() });
  await run();
  step = fail;
  await t.throwsAsync(run(), { message: "unreachable" });
  step = succeed;
  await run();
  t.deepEqual(created, [{ isAborted: false }]);
  await end();
  t.deepEqual(created, [{ isAborted: true }]);
});

test("a run fails with its scan, and then it records no pass", async (t) => {
  const { db } = t.context;
  let scan: () => Promise<void> = fail;
  const { run } = createFakeRuns(db, { kind: "dispatcher", scan: () => scan() });
  const hasPassed = async (): Promise<boolean> =>
    (await listLastPasses(db)).some((each) => each.kind === "dispatcher" && each.hasPassed);
  await t.throwsAsync(
    async () => {
      for (;;) {
        await run();
      }
    },
    { message: "unreachable" },
  );
  t.false(await hasPassed());
  scan = succeed;
  // A run may end before its scan.
  await eventually(async () => {
    await run();
    return hasPassed();
  });
});

test("a canceled run ends with its calls, and the next one has a new sender", async (t) => {
  const { run, created } = createFakeRuns(t.context.db);
  const cancel = new AbortController();
  const canceled = run(cancel.signal);
  cancel.abort();
  await canceled;
  t.deepEqual(created, [{ isAborted: true }]);
  await run();
  t.deepEqual(created, [{ isAborted: true }, { isAborted: false }]);
});
