import type { ExecutionContext } from "ava";
import anyTest from "ava";
import type { DatabasePool } from "slonik";
import { openPool } from "../../../db/pool.ts";
import { createBilling } from "../../../providers/billing/createBilling.ts";
import type { DrainResult } from "../../../services/billing/sending/drainUsage.ts";
import { drainUsage } from "../../../services/billing/sending/drainUsage.ts";
import { guardUsage, holdUsage, releaseUsage } from "../../../services/billing/holdUsage.ts";
import { sendMeterEvent } from "../../../services/billing/sending/sendMeterEvent.ts";
import { sealMeterEvent } from "../../../services/billing/sending/sealMeterEvent.ts";
import { createRegistrationWriter } from "../../../services/registrations/createRegistrationWriter.ts";
import { refundRegistration } from "../../../services/registrations/refundRegistration.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import type { Run } from "../../cli/runImpact.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { copyDatabase } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";

const test = anyTest;

const NOON = Date.UTC(2026, 4, 15, 12) / 1000;
const DAY = 24 * 60 * 60;

/** A deployment that is billed through the double. Its database can be copied, which is a restore. */
const setUp = async (t: ExecutionContext) => {
  const double = await startStripeDouble();
  t.teardown(double.close);
  const { control } = double;
  control.holdClock({ second: NOON });
  const clock = { now: () => new Date(control.now() * 1000) };
  const { customerId, subscriptionId } = control.addSubscriber({});
  const stripe = { secretKey: double.secretKey, apiBase: double.url };

  const open = async (url: string) => {
    const db: DatabasePool = await openPool(url);
    let isOpen = true;
    const close = async (): Promise<void> => {
      if (isOpen) {
        isOpen = false;
        await db.end();
      }
    };
    t.teardown(close);
    const deps = { db, clock, billing: createBilling({ db, stripe }) };
    await deps.billing.prepare();
    return { url, db, deps, close };
  };
  type Opened = Awaited<ReturnType<typeof open>>;

  const original = await open(await copyDatabase(t));
  const { id: accountId } = await createTestOrganization(original.db, {
    clock,
    stripeCustomerId: customerId,
    stripeSubscriptionId: subscriptionId,
  });
  await guardUsage(original.deps);
  const stream = { accountId, mode: "live", meter: "tree" } as const;
  return {
    double,
    control,
    stream,
    original,
    pass: (seconds: number) => control.advanceClock({ seconds }),
    open,
    /** Copies the database, and returns both sides opened. */
    fork: async (from: Opened) => {
      await from.close();
      const copy = await copyDatabase(t, from.url);
      return { continued: await open(from.url), restored: await open(copy) };
    },
    register: async ({ deps }: Opened, count: number): Promise<string> => {
      const writer = createRegistrationWriter(deps);
      const { registration } = await writer.register(registrationOf(accountId, { count }));
      return registration.id;
    },
    refund: ({ deps }: Opened, id: string, count: number) =>
      refundRegistration(
        deps,
        { accountId, mode: "live", kind: "tree" },
        { id, count, reason: null, idempotencyKey: null },
      ),
    drain: ({ deps }: Opened): Promise<DrainResult> =>
      drainUsage(deps, stream, {
        signal: new AbortController().signal,
        onResult: () => undefined,
      }),
    impact: ({ url }: Opened, ...args: readonly string[]): Promise<Run> =>
      runImpact(args, {
        env: {
          DATABASE_URL: url,
          STRIPE_SECRET_KEY: double.secretKey,
          STRIPE_API_BASE: double.url,
        },
        clock,
      }),
    /** Stripe's units by second after the start. */
    billed: (): Record<number, number> =>
      Object.fromEntries(
        control.usage({ customerId }).map(({ second, value }) => [second - NOON, value]),
      ),
  };
};

test("a copied database sends nothing until an operator releases it", async (t) => {
  const scene = await setUp(t);
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
  const { original, register, pass, stream, drain, billed } = await setUp(t);
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
  const scene = await setUp(t);
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

  // Within a minute, Stripe's sums do not distinguish seconds.
  const sums = new Map<number, number>();
  for (const [second, units] of Object.entries(scene.billed())) {
    const minute = Math.floor(Number(second) / 60);
    sums.set(minute, (sums.get(minute) ?? 0) + units);
  }
  t.deepEqual(
    [...sums.values()].toSorted((a, b) => a - b),
    [2, 7, 9 + 20 + 4 + 8],
  );
});

test("a standby that lost the last second sends only what Stripe lacks", async (t) => {
  const scene = await setUp(t);
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
  const scene = await setUp(t);
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
