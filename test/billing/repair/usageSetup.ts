import type { ExecutionContext } from "ava";
import { z } from "zod";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import type { Mode } from "../../../modules/records/owner.rules.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { impactOf } from "../../cli/runImpact.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createBilledOrganization, listFailedEvents } from "../billingSetup.ts";
import { drainUsage } from "../drainUsage.ts";

/** A row of `usage list`. */
export const listedEvent = z.looseObject({
  item: z.string(),
  state: z.string(),
  quantity: z.int(),
});

/** Creates an organization with a Stripe customer that does not exist, so its live usage is rejected. */
export const setUpUsage = async (t: ExecutionContext<DatabaseContext>) => {
  const { db } = t.context;
  const double = await startStripeDouble(t);
  const billing = await double.openBilling(db);
  // Old enough to be sealed immediately.
  const past = { now: () => new Date(Date.now() - 10_000) };
  const deps = { db, clock: past, billing, actor: SERVICE };
  const { stream, register, refund } = await createBilledOrganization(deps, double.control, {
    customerId: `cus_${crypto.randomUUID().replaceAll("-", "")}`,
    subscriptionId: null,
  });
  const { accountId: id } = stream;
  const later = { now: () => new Date(Date.now() + 16 * 60 * 1000) };
  const impact = impactOf(t, { env: double.env });
  const { control } = double;
  /** Sends ready usage, as a worker would, until nothing is left or an event must wait. */
  const drain = async (mode: Mode = "live"): Promise<void> => {
    await drainUsage({ db, clock: systemClock, billing }, { ...stream, mode });
  };
  return {
    id,
    /** The month in which usage is registered, also if a command runs in the next one. */
    month: past.now().toISOString().slice(0, 7),
    double,
    impact,
    usage: impactOf(t, { env: double.env }, "usage"),
    /** 16 minutes later, when Stripe's sums can no longer lag. */
    usageLater: impactOf(t, { env: double.env, clock: later }, "usage"),
    usageWithoutStripe: impactOf(t, {}, "usage"),
    register,
    refund,
    drain,
    /** Registers trees, and sends their usage. */
    send: async (count: number): Promise<string> => {
      const registration = await register(count);
      await drain();
      return registration;
    },
    /** Gives the organization a new Stripe customer. */
    setCustomer: async (): Promise<string> => {
      const { customerId } = control.addCustomer({});
      await impact.ok("org", "update", id, "--stripe-customer", customerId);
      return customerId;
    },
    failedEvents: async (): Promise<readonly string[]> =>
      (await listFailedEvents(db, stream)).map((event) => `E${event}`),
    billed: () => control.usage({}).reduce((sum, { value }) => sum + value, 0),
  };
};

export type UsageSetup = Awaited<ReturnType<typeof setUpUsage>>;
