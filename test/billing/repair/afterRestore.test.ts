import test from "ava";
import { z } from "zod";
import { guardUsage } from "../../../services/billing/holdUsage.ts";
import { readJson } from "../../cli/runImpact.ts";
import { NOON, setUpRestore } from "./restoreSetup.ts";

const DAY = 24 * 60 * 60;
const AFTER_RESTORE = ["usage", "reconcile", "--after-restore"] as const;

const doubts = z.array(
  z.object({
    meter_event_id: z.int().nullable(),
    at: z.iso.datetime(),
    quantity: z.int(),
    processor_quantity: z.int().nullable(),
    result: z.string(),
  }),
);

/**
 * A restore after which each side has what the other lacks. By minute: 0 is delivered on both sides; 1 was sent in the lost
 * history; 2 too, with more units than the database has; 3 was registered in the lost history only; 4 only in the restored
 * database; in 1, a refund was sent as well.
 */
const setUpDiverged = async (t: Parameters<typeof setUpRestore>[0]) => {
  const scene = await setUpRestore(t);
  const { register, refund, drain, pass } = scene;
  await register(scene.original, 1);
  pass(60);
  await drain(scene.original);
  const refunded = await register(scene.original, 10);
  pass(1);
  await register(scene.original, 20);
  await refund(scene.original, refunded, 4);
  pass(59);
  await register(scene.original, 100);
  const { continued, restored } = await scene.fork(scene.original);
  await register(continued, 50);
  pass(60);
  await register(continued, 1000);
  pass(60);
  await drain(continued);
  await register(restored, 2000);
  pass(5);
  await guardUsage(restored.deps);
  pass(16 * 60);
  const sumCalls = () =>
    scene.control.calls().filter(({ path }) => path.endsWith("/event_summaries")).length;
  return {
    ...scene,
    restored,
    sumCalls,
    before: { 0: 1, 1: 26, 2: 150, 3: 1000 },
    after: { 0: 1, 1: 26, 2: 150, 3: 1000, 4: 2000 },
  };
};

test("after a restore, what only one side has is neither doubled nor lost, with one read of each minute's sum", async (t) => {
  const { impact, restored, drain, billedByMinute, sumCalls, before, after } =
    await setUpDiverged(t);
  t.deepEqual(billedByMinute(), before);
  const earlier = sumCalls();

  const run = await impact(restored, ...AFTER_RESTORE, "--json");

  t.is(run.exitCode, 0, run.stderr);
  t.is(sumCalls() - earlier, 3);
  t.deepEqual(
    doubts.parse(readJson(run)).map(({ quantity, result }) => [quantity, result]),
    [
      [10, "delivered"],
      [20, "partial"],
      [-4, "absent"],
      [100, "delivered"],
      [2000, "absent"],
    ],
  );
  await drain(restored);
  t.deepEqual(billedByMinute(), after);
});

test("a dry run shows the same results, changes nothing and keeps the hold", async (t) => {
  const { impact, restored, drain, billedByMinute, before, after } = await setUpDiverged(t);

  const first = await impact(restored, ...AFTER_RESTORE, "--dry-run", "--json");
  const second = await impact(restored, ...AFTER_RESTORE, "--dry-run", "--json");

  t.is(first.exitCode, 0, first.stderr);
  t.regex(first.stderr, /5 event\(s\) are in doubt.* usage stays held/u);
  t.deepEqual(doubts.parse(readJson(second)), doubts.parse(readJson(first)));
  t.like(await drain(restored), { cause: "held" });
  const run = await impact(restored, ...AFTER_RESTORE, "--json");
  t.deepEqual(
    doubts.parse(readJson(run)).map(({ at, result }) => [at, result]),
    doubts.parse(readJson(first)).map(({ at, result }) => [at, result]),
  );
  t.deepEqual(billedByMinute(), before);
  await drain(restored);
  t.deepEqual(billedByMinute(), after);
});

for (const minute of [1, 2, 4]) {
  test(`a run that broke off at minute ${minute} is continued by the next one`, async (t) => {
    const { control, impact, restored, drain, billedByMinute, after } = await setUpDiverged(t);
    control.addFault({
      kind: "server_error",
      method: "GET",
      path: `/v1/billing/meters/${control.meterIds().tree}/event_summaries`,
      mentioning: String(NOON + minute * 60),
      times: 1000,
    });
    const broken = await impact(restored, ...AFTER_RESTORE);
    t.not(broken.exitCode, 0);
    t.like(await drain(restored), { cause: "held" });
    control.clearFaults();

    const repeated = await impact(restored, ...AFTER_RESTORE);

    t.is(repeated.exitCode, 0, repeated.stderr);
    await drain(restored);
    t.deepEqual(billedByMinute(), after);
    const third = await impact(restored, ...AFTER_RESTORE);
    t.is(third.exitCode, 1);
    t.regex(third.stderr, /usage is not held/u);
  });
}

test("with --since, older usage is not compared and is sent under its own identifier", async (t) => {
  const scene = await setUpRestore(t);
  const { register, drain, pass, impact, control } = scene;
  await register(scene.original, 3);
  pass(DAY);
  await register(scene.original, 5);
  const { restored } = await scene.fork(scene.original);
  pass(5);
  await guardUsage(restored.deps);
  pass(16 * 60);
  const since = new Date((NOON + DAY) * 1000).toISOString();

  const run = await impact(restored, ...AFTER_RESTORE, "--since", since, "--json");

  t.deepEqual(
    doubts.parse(readJson(run)).map(({ quantity }) => quantity),
    [5],
  );
  await drain(restored);
  t.deepEqual(scene.billed(), { 0: 3, [DAY]: 5 });
  t.deepEqual(control.problems(), []);
});

test("the options of the two kinds of reconciliation do not mix", async (t) => {
  const { impact, original } = await setUpRestore(t);
  const dryRun = await impact(original, "usage", "reconcile", "--dry-run");
  t.is(dryRun.exitCode, 2);
  t.regex(dryRun.stderr, /need --after-restore/u);
  const from = await impact(original, ...AFTER_RESTORE, "--from", "2026-05-01");
  t.is(from.exitCode, 2);
  t.regex(from.stderr, /--after-restore takes no --org, --from, --to or --last/u);
});
