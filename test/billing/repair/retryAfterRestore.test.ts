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
  }: {
    /** The units of another minute that are pending at the restored time. */
    readonly pending?: number;
    /** A refund of the 10 units from before the restored time, and what has become of it then. */
    readonly refund?: { readonly units: number; readonly state: "held" | "unsealed" } | null;
  } = {},
) => {
  const scene = await setUpRestore(t);
  const { register, drain, pass, control, impact, original } = scene;
  const registrationId = await register(original, 10);
  pass(5);
  control.addFault({ kind: "respond", status: 400, body: { error: { message: "refused" } } });
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
    usageId,
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
