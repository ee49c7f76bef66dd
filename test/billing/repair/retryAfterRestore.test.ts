import test from "ava";
import type { ExecutionContext } from "ava";
import type { DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { guardUsage } from "../../../services/billing/holdUsage.ts";
import { settleAfterRestore } from "../../../services/billing/reconciliation/settleAfterRestore.ts";
import { readJson } from "../../cli/runImpact.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { setUpRestore, whileReadingSums } from "./restoreSetup.ts";

const MINUTE = 60;
const LAG_SECONDS = 16 * MINUTE;
const FORGOTTEN_AFTER = 3 * 24 * 60 * MINUTE;

const idRow = z.object({ id: z.bigint() });

/**
 * A restored database whose usage is held. 10 units were rejected before the restored time, and the lost history has retried
 * them. Stripe's sums show everything, and Stripe has forgotten the identifiers.
 */
const setUpRetried = async (
  t: ExecutionContext,
  {
    pending = 0,
    refund = null,
    customer = "same",
  }: {
    /** The units of another minute that are pending at the restored time. */
    readonly pending?: number;
    /** A refund of the 10 units from before the restored time, and what has become of it then. */
    readonly refund?: { readonly units: number; readonly state: "held" | "unsealed" } | null;
    /** Which customer the organization has at the restored time. The lost history has given it the one that has the usage. */
    readonly customer?: "same" | "none" | "another";
  } = {},
) => {
  const scene = await setUpRestore(t);
  const { register, drain, pass, control, impact, original } = scene;
  const setCustomer = async (opened: typeof original, customerId: string): Promise<void> => {
    const ids = ["--stripe-customer", customerId, "--stripe-subscription", "none"];
    const run = await impact(opened, "org", "update", scene.stream.accountId, ...ids);
    t.is(run.exitCode, 0, run.stderr);
  };
  if (customer !== "same") {
    const other = customer === "none" ? "none" : control.addCustomer({}).customerId;
    await setCustomer(original, other);
  }
  const registrationId = await register(original, 10);
  pass(5);
  if (customer !== "none") {
    control.addFault({ kind: "respond", status: 400, body: { error: { message: "refused" } } });
  }
  await drain(original);
  const usageId = String(
    await original.db.oneFirst(sql.type(idRow)`SELECT id FROM meter_event WHERE quantity > 0`),
  );
  if (refund) {
    await scene.refund(original, registrationId, refund.units);
    if (refund.state === "held") {
      await drain(original);
    }
  }
  if (pending > 0) {
    pass(MINUTE);
    await register(original, pending);
    pass(5);
  }
  const { continued, restored } = await scene.fork(original);
  if (customer !== "same") {
    await setCustomer(continued, scene.customerId);
  }
  t.is((await impact(continued, "usage", "retry", usageId)).exitCode, 0);
  await drain(continued);
  const billed = scene.billedByMinute();
  pass(FORGOTTEN_AFTER);
  await guardUsage(restored.deps);
  pass(LAG_SECONDS);
  const retry = (id: string, ...args: readonly string[]) =>
    impact(restored, "usage", "retry", id, ...args, "--json");
  return {
    ...scene,
    restored,
    registrationId,
    usageId,
    setCustomer: () => setCustomer(restored, scene.customerId),
    findRefundId: async () =>
      String(
        await restored.db.oneFirst(sql.type(idRow)`SELECT id FROM meter_event WHERE quantity < 0`),
      ),
    /** What Stripe has of the lost history. */
    billed,
    compare: (billing = restored.deps.billing) =>
      settleAfterRestore(
        { ...restored.deps, billing },
        { operator: "maria", since: null, isDryRun: false },
        new AbortController().signal,
      ),
    retry,
    /** Retries an event, which the processor's sums decide. */
    check: async (id: string) => {
      const run = await retry(id);
      t.is(run.exitCode, 0, run.stdout + run.stderr);
      return readJson(run);
    },
  };
};

test("usage that a lost history has retried is not billed twice if it is retried during the comparison", async (t) => {
  const scene = await setUpRetried(t, { pending: 1 });
  const { restored, usageId } = scene;
  t.deepEqual(scene.billed, { 0: 10, 1: 1 });

  await scene.compare(
    whileReadingSums(restored.deps.billing, async () => {
      t.like(await scene.check(usageId), [{ result: "delivered" }]);
    }),
  );

  await scene.drain(restored);
  t.deepEqual(scene.billedByMinute(), scene.billed);
});

const lockEvents = (transaction: DatabaseTransactionConnection) =>
  transaction.query(sql.typeAlias("void")`SELECT FROM meter_event FOR UPDATE`);

test("a retry that has read an event before a comparison begins is refused after it", async (t) => {
  const scene = await setUpRetried(t);
  const { restored, usageId, compare, retry } = scene;

  const [, retried] = await runBehindLocks(restored.db, lockEvents, compare, () => retry(usageId));

  t.like(readJson(retried), [{ result: "failed" }]);
  t.regex(retried.stdout, /has changed meanwhile; try again/u);
  t.like(await scene.check(usageId), [{ result: "delivered" }]);
  await scene.drain(restored);
  t.deepEqual(scene.billedByMinute(), scene.billed);
});

test("usage that a retry releases while a comparison begins is compared", async (t) => {
  const scene = await setUpRetried(t);
  const { restored, usageId, compare, retry } = scene;

  const [retried] = await runBehindLocks(restored.db, lockEvents, () => retry(usageId), compare);

  t.like(readJson(retried), [{ result: "waiting" }]);
  await scene.drain(restored);
  t.deepEqual(scene.billedByMinute(), scene.billed);
});

for (const state of ["held", "unsealed"] as const) {
  test(`a refund that was ${state} at the restored time, and waived since, is not sent by a retry of its usage`, async (t) => {
    const scene = await setUpRetried(t, { pending: 1, refund: { units: 3, state } });
    const { restored, usageId, impact } = scene;
    const billed = { 0: 7, 1: 1 };
    t.deepEqual(scene.billed, billed);
    let refundId = "";

    await scene.compare(
      whileReadingSums(restored.deps.billing, async () => {
        refundId = await scene.findRefundId();
        for (const [command, ...args] of [
          ["waive", usageId, "--reason", "invoiced by hand"],
          ["waive", refundId, "--reason", "invoiced by hand"],
          ["retry", usageId, "--assume", "delivered"],
        ] as const) {
          const run = await impact(restored, "usage", command, ...args);
          t.is(run.exitCode, 0, run.stdout + run.stderr);
        }
      }),
    );

    await scene.drain(restored);
    t.deepEqual(scene.billedByMinute(), billed);
    scene.pass(LAG_SECONDS);
    t.like(await scene.check(refundId), [{ result: "delivered" }]);
    await scene.drain(restored);
    t.deepEqual(scene.billedByMinute(), billed);
  });
}

for (const customer of ["none", "another"] as const) {
  test(`usage that a lost history has retried with its new customer is not billed twice if the organization had ${customer} before`, async (t) => {
    const scene = await setUpRetried(t, { customer });
    const { restored, usageId, setCustomer, retry, drain } = scene;
    t.deepEqual(scene.billed, { 0: 10 });
    await scene.compare();
    if (customer === "none") {
      for (const args of [[], ["--assume", "delivered"]]) {
        const early = await retry(usageId, ...args);
        t.is(early.exitCode, 1);
        t.regex(early.stdout, /has no Stripe customer/u);
      }
    }

    await setCustomer();
    t.like(await scene.check(usageId), [{ result: "delivered" }]);

    await drain(restored);
    t.deepEqual(scene.billedByMinute(), { 0: 10 });
    await scene.refund(restored, scene.registrationId, 3);
    await drain(restored);
    t.deepEqual(scene.billedByMinute(), { 0: 7 });
  });
}

for (const isSetFirst of [true, false]) {
  test(`pending usage that a lost history has sent to a new customer is not billed twice if the customer is set ${isSetFirst ? "before" : "after"} the comparison`, async (t) => {
    const scene = await setUpRetried(t, { customer: "none", pending: 1 });
    const { restored, setCustomer, drain } = scene;
    const billed = { 0: 10, 1: 1 };
    t.deepEqual(scene.billed, billed);
    if (isSetFirst) {
      await setCustomer();
    }

    const settled = await scene.compare();

    t.like(settled, [{ result: isSetFirst ? "delivered" : "unclear" }]);
    if (!isSetFirst) {
      await setCustomer();
      t.like(await scene.check(String(settled[0]?.event.id)), [{ result: "delivered" }]);
    }
    t.like(await scene.check(scene.usageId), [{ result: "delivered" }]);
    await drain(restored);
    t.deepEqual(scene.billedByMinute(), billed);
    scene.pass(LAG_SECONDS);
    const reconciled = await scene.impact(restored, "usage", "reconcile");
    t.is(reconciled.exitCode, 0, reconciled.stdout);
  });
}

test("an event that a lost history has sent to another customer is not billed twice if it was being sent at the restored time", async (t) => {
  const scene = await setUpRestore(t);
  const { control, drain, pass, impact, original } = scene;
  type Opened = typeof original;
  const setCustomer = (opened: Opened, customerId: string) =>
    impact(opened, "org", "update", scene.stream.accountId, "--stripe-customer", customerId);
  const retry = async (opened: Opened) => {
    pass(LAG_SECONDS);
    return readJson(await impact(opened, "usage", "retry", "--all", "--json"));
  };
  await setCustomer(original, control.addCustomer({}).customerId);
  await scene.register(original, 10);
  pass(5);
  control.addFault({ kind: "drop" });
  await drain(original);
  const { continued, restored } = await scene.fork(original);
  pass(MINUTE);
  control.addFault({ kind: "respond", status: 400, body: { error: { message: "refused" } } });
  await drain(continued);
  await setCustomer(continued, scene.customerId);
  t.like(await retry(continued), [{ result: "waiting" }]);
  await drain(continued);
  t.deepEqual(scene.billedByMinute(), { 0: 10 });
  await setCustomer(restored, scene.customerId);
  await guardUsage(restored.deps);
  pass(LAG_SECONDS);

  t.is((await impact(restored, "usage", "compare-and-release")).exitCode, 1);

  t.like(await retry(restored), [{ result: "delivered" }]);
  await drain(restored);
  t.deepEqual(scene.billedByMinute(), { 0: 10 });
});
