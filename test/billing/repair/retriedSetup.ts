import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { settleAfterRestore } from "../../../modules/billing/reconciliation/settleAfterRestore.ts";
import { readJson } from "../../cli/runImpact.ts";
import { setUpRestore } from "./restoreSetup.ts";

export const MINUTE = 60;
export const LAG_SECONDS = 16 * MINUTE;
/** Stripe has forgotten the identifiers and idempotency keys. */
export const FORGOTTEN_AFTER_SECONDS = 3 * 24 * 60 * MINUTE;

const idRow = z.object({ id: z.bigint() });

/**
 * A restored database whose usage is held. 10 units were rejected before the restored time, and the lost history has retried
 * them. Stripe's sums show everything, and Stripe has forgotten the identifiers.
 */
export const setUpRetried = async (
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
  const earlierCustomerId =
    customer === "another" ? control.addCustomer({}).customerId : scene.customerId;
  if (customer !== "same") {
    await setCustomer(original, customer === "none" ? "none" : earlierCustomerId);
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
  pass(FORGOTTEN_AFTER_SECONDS);
  await guardUsage(restored.deps);
  pass(LAG_SECONDS);
  const retry = (id: string, ...args: readonly string[]) =>
    impact(restored, "usage", "retry", id, ...args, "--json");
  return {
    ...scene,
    restored,
    registrationId,
    usageId,
    earlierCustomerId,
    setCustomer: () => setCustomer(restored, scene.customerId),
    findRefundId: async () =>
      String(
        await restored.db.oneFirst(sql.type(idRow)`SELECT id FROM meter_event WHERE quantity < 0`),
      ),
    /** What Stripe has of the lost history. */
    billed,
    compare: (billing = restored.deps.billing, isDryRun = false) =>
      settleAfterRestore(
        { ...restored.deps, billing },
        { operator: "maria", since: null, isDryRun },
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
