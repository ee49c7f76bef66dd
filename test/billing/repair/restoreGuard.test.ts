import test from "ava";
import { guardUsage, holdUsage, releaseUsage } from "../../../services/billing/holdUsage.ts";
import { sendMeterEvent } from "../../../services/billing/sending/sendMeterEvent.ts";
import { sealMeterEvent } from "../../../services/billing/sending/sealMeterEvents.ts";
import { readJson } from "../../cli/runImpact.ts";
import { setUpRestore } from "./restoreSetup.ts";

const DAY = 24 * 60 * 60;

test("a copied database sends nothing until an operator releases it", async (t) => {
  const scene = await setUpRestore(t);
  await scene.register(scene.original, 3);
  const { continued, restored } = await scene.fork(scene.original);
  scene.pass(5);

  t.like(await scene.drain(restored), { kind: "delayed", cause: "held" });
  t.deepEqual(scene.billed(), {});
  const listed = await scene.impact(restored, "usage", "list");
  t.regex(listed.stderr, /held by restore guard: the database was restored, promoted or copied/u);
  const shown = await scene.impact(restored, "deployment", "show", "--json");
  t.like(readJson(shown), { server_changed: true });
  t.is((await scene.drain(continued)).kind, "done");

  const released = await scene.impact(restored, "usage", "release", "--as", "maria");
  t.is(released.exitCode, 0, released.stderr);
  t.is((await scene.drain(restored)).kind, "done");
  t.deepEqual(scene.billed(), { 0: 3 });
});

test("a hold stops an event that is already sealed", async (t) => {
  const { original, register, pass, stream, drain, billed } = await setUpRestore(t);
  await register(original, 3);
  pass(5);
  const sealing = await sealMeterEvent(original.deps, stream);
  const event = sealing.kind === "event" ? sealing.event : t.fail();

  await holdUsage(original.deps, { reason: "failover drill", by: "maria" });

  if (typeof event === "object") {
    t.like(await sendMeterEvent(original.deps, event.id, new AbortController().signal), {
      kind: "delayed",
    });
  }
  t.like(await drain(original), {
    cause: "held",
    reason: "usage is held by maria: failover drill",
  });
  t.deepEqual(billed(), {});
  await releaseUsage(original.deps, "maria");
  t.is((await drain(original)).kind, "done");
  t.deepEqual(billed(), { 0: 3 });
});

test("after a restore to three days earlier, nothing doubles and nothing is lost", async (t) => {
  const scene = await setUpRestore(t);
  const { register, refund, drain, pass } = scene;
  const refunded = await register(scene.original, 10);
  pass(5);
  await drain(scene.original);
  // Sent in the lost history: seconds 5 and 6, and the refund.
  await register(scene.original, 20);
  pass(1);
  await register(scene.original, 4);
  await refund(scene.original, refunded, 1);
  pass(1);
  const neverSent = await register(scene.original, 8);
  const { continued, restored } = await scene.fork(scene.original);

  // Second 7 is refunded in the lost history before it is sent.
  await refund(continued, neverSent, 8);
  pass(60);
  await drain(continued);
  await register(continued, 7);
  pass(5);
  await drain(continued);
  t.deepEqual(scene.billed(), { 0: 9, 5: 20, 6: 4, 67: 7 });
  pass(3 * DAY);

  await guardUsage(restored.deps);
  await register(restored, 2);
  const early = await scene.impact(restored, "usage", "reconcile", "--after-restore");
  t.is(early.exitCode, 1);
  t.regex(early.stderr, /may lag until/u);
  pass(16 * 60);
  const run = await scene.impact(restored, "usage", "reconcile", "--after-restore", "--json");
  t.is(run.exitCode, 0, run.stderr);
  t.is((await drain(restored)).kind, "done");

  t.deepEqual(
    Object.values(scene.billedByMinute()).toSorted((a, b) => a - b),
    [2, 7, 9 + 20 + 4 + 8],
  );
});

test("a standby that lost the last second sends only what Stripe lacks", async (t) => {
  const scene = await setUpRestore(t);
  const { register, drain, pass } = scene;
  await register(scene.original, 52);
  const { continued, restored } = await scene.fork(scene.original);
  await register(continued, 24);
  pass(5);
  await drain(continued);
  t.deepEqual(scene.billed(), { 0: 76 });

  await guardUsage(restored.deps);
  pass(16 * 60);
  const run = await scene.impact(restored, "usage", "reconcile", "--after-restore");
  t.is(run.exitCode, 0, run.stderr);
  t.is((await drain(restored)).kind, "done");
  t.deepEqual(scene.billed(), { 0: 76 });
});

test("usage and its later refund are told apart", async (t) => {
  const scene = await setUpRestore(t);
  const { register, refund, drain, pass } = scene;
  const id = await register(scene.original, 5);
  const { continued, restored } = await scene.fork(scene.original);
  pass(5);
  await drain(continued);
  t.deepEqual(scene.billed(), { 0: 5 });

  await guardUsage(restored.deps);
  await refund(restored, id, 5);
  pass(16 * 60);
  await scene.impact(restored, "usage", "reconcile", "--after-restore");
  t.is((await drain(restored)).kind, "done");
  t.deepEqual(scene.billed(), { 0: 0 });
});
