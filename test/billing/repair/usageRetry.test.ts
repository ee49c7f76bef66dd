import { z } from "zod";
import { testWithDatabase } from "../../support/database.ts";
import { readJson } from "../../cli/runImpact.ts";
import { setCustomer, listedEvent, setUpUsage } from "./usageSetup.ts";
import type { UsageSetup } from "./usageSetup.ts";

// Serial, because some tests retry the failed events of all accounts.
const test = testWithDatabase();

const UNKNOWN = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

const results = z.array(
  z.strictObject({ id: z.string(), result: z.string(), reason: z.string().nullable() }),
);

test.serial(
  "a rejected event is retried by its id once its cause is fixed, and billed once",
  async (t) => {
    const scene = await setUpUsage(t);
    const registration = await scene.register(4);
    await scene.drain();
    const [failed] = await scene.failedEvents();
    await setCustomer(scene);
    const run = await scene.impact("usage", "retry", failed ?? "", "--json");
    t.is(run.exitCode, 0);
    t.deepEqual(readJson(run), [{ id: failed, result: "waiting", reason: null }]);
    await scene.drain();
    t.is(scene.billed(), 4);
    t.deepEqual(await scene.failedEvents(), []);
    const again = await scene.impact("usage", "retry", failed ?? "");
    t.is(again.exitCode, 1);
    t.regex(again.stdout, /superseded: there is nothing to retry/u);
    const byRegistration = await scene.impact("usage", "retry", registration);
    t.is(byRegistration.exitCode, 1);
    t.regex(byRegistration.stdout, /none of its usage has failed/u);
    t.is(scene.billed(), 4);
  },
);

test.serial(
  "a failed event is retried by its registration, and what remains after its refund is billed",
  async (t) => {
    const scene = await setUpUsage(t);
    const registration = await scene.register(7);
    await scene.drain();
    await scene.refund(registration, 3);
    await scene.drain();
    await setCustomer(scene);
    const run = await scene.impact("usage", "retry", registration);
    t.is(run.exitCode, 0);
    await scene.drain();
    t.is(scene.billed(), 4);
  },
);

test.serial("a retry that fails does not stop the others, and makes the exit code 1", async (t) => {
  const scene = await setUpUsage(t);
  await scene.register(2);
  await scene.drain();
  const [failed] = await scene.failedEvents();
  await setCustomer(scene);
  const run = await scene.impact("usage", "retry", UNKNOWN, "999999999", failed ?? "", "--json");
  t.is(run.exitCode, 1);
  const reported = results.parse(readJson(run));
  t.deepEqual(
    reported.map(({ id, result }) => [id, result]),
    [
      [UNKNOWN, "failed"],
      ["999999999", "failed"],
      [failed, "waiting"],
    ],
  );
  t.regex(run.stderr, /2 of 3 could not be retried/u);
  const onlyUnknown = await scene.impact("usage", "retry", UNKNOWN);
  t.is(onlyUnknown.exitCode, 3);
});

test.serial("--org retries the failed events of that organization only", async (t) => {
  const ours = await setUpUsage(t);
  const others = await setUpUsage(t);
  for (const scene of [ours, others]) {
    await scene.register(1);
    await scene.drain();
  }
  await setCustomer(ours);
  const run = await ours.impact("usage", "retry", "--org", ours.id);
  t.is(run.exitCode, 0);
  t.deepEqual(await ours.failedEvents(), []);
  t.is((await others.failedEvents()).length, 1);
  const nothing = await ours.impact("usage", "retry", "--org", ours.id);
  t.is(nothing.exitCode, 0);
  t.regex(nothing.stderr, /nothing to retry/u);
});

test.serial("--all retries every failed event once, even if it fails again", async (t) => {
  const scene = await setUpUsage(t);
  await scene.register(1);
  await scene.drain();
  const [failed = ""] = await scene.failedEvents();
  const run = await scene.impact("usage", "retry", "--all", "--json");
  t.is(run.exitCode, 0);
  const retried = results.parse(readJson(run));
  t.true(retried.every(({ result }) => result === "waiting"));
  t.is(retried.filter(({ id }) => id === failed).length, 1);
  await scene.drain();
  const failedAgain = await scene.failedEvents();
  t.is(failedAgain.length, 1);
  t.not(failedAgain[0], failed);
});

/** Makes an attempt with an unknown outcome, and then one that is refused. Returns the id of the blocked event. */
const leaveUnknown = async (scene: UsageSetup): Promise<string> => {
  await setCustomer(scene);
  scene.double.control.addFault({ kind: "drop" });
  scene.double.control.addFault({
    kind: "respond",
    status: 400,
    body: { error: { type: "invalid_request_error", message: "Refused for the test." } },
  });
  await scene.register(6);
  await scene.drain();
  await scene.drain();
  const [failed = ""] = await scene.failedEvents();
  return failed;
};

test.serial(
  "Stripe's sums decide whether usage with an unknown outcome is sent again",
  async (t) => {
    const scene = await setUpUsage(t);
    const failed = await leaveUnknown(scene);
    const early = await scene.impact("usage", "retry", failed);
    t.is(early.exitCode, 1);
    t.regex(early.stdout, /may lag for another 15 minutes/u);
    const run = await scene.impactLater("usage", "retry", failed, "--json");
    t.is(run.exitCode, 0);
    t.deepEqual(readJson(run), [{ id: failed, result: "waiting", reason: null }]);
    await scene.drain();
    t.is(scene.billed(), 6);
  },
);

test.serial("without Stripe's key, an unknown outcome needs --assume", async (t) => {
  const scene = await setUpUsage(t);
  const failed = await leaveUnknown(scene);
  const refused = await scene.impactWithoutStripe("usage", "retry", failed);
  t.is(refused.exitCode, 1);
  t.regex(refused.stdout, /cannot be checked/u);
  t.deepEqual(await scene.failedEvents(), [failed]);
  const run = await scene.impactWithoutStripe("usage", "retry", failed, "--assume", "delivered");
  t.is(run.exitCode, 0);
  await scene.drain();
  t.is(scene.billed(), 0);
  t.deepEqual(await scene.failedEvents(), []);
});

test.serial(
  "failed events are waived with a reason, and other ids are reported as failed",
  async (t) => {
    const scene = await setUpUsage(t);
    await scene.register(3);
    await scene.drain();
    const [failed = ""] = await scene.failedEvents();

    const without = await scene.impact("usage", "waive", failed);
    t.is(without.exitCode, 2);
    t.regex(without.stderr, /--reason/u);
    const run = await scene.impact(
      "usage",
      "waive",
      failed,
      "999999",
      "--reason",
      "too old",
      "--json",
    );
    t.is(run.exitCode, 1);
    t.deepEqual(readJson(run), [
      { id: failed, result: "waived", reason: null },
      { id: "999999", result: "failed", reason: "meter event 999999 not found" },
    ]);
    t.deepEqual(await scene.failedEvents(), []);
    const listed = await scene.impact(
      "usage",
      "list",
      "--state",
      "waived",
      "--org",
      scene.id,
      "--json",
    );
    t.like(z.array(listedEvent).parse(readJson(listed))[0], { state: "waived", quantity: 3 });
    const unknown = await scene.impact("usage", "waive", "999999", "--reason", "x");
    t.is(unknown.exitCode, 3);
  },
);
