import type { ExecutionContext } from "ava";
import { z } from "zod";
import { systemClock } from "../../../runtime/clock.ts";
import type { Clock } from "../../../runtime/clock.ts";
import type { Mode } from "../../../modules/records/owner.rules.ts";
import { drainUsage } from "../drainUsage.ts";
import { refundRegistration } from "../../../modules/registrations/refundRegistration.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization, registerFor } from "../../support/factories.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import type { Run } from "../../cli/runImpact.ts";

/** A row of `usage list`. */
export const listedEvent = z.looseObject({
  item: z.string(),
  state: z.string(),
  quantity: z.int(),
});

export const listedEvents = z.array(listedEvent);

/** Creates an organization with a Stripe customer that does not exist, so its live usage is rejected. */
export const setUpUsage = async (t: ExecutionContext<DatabaseContext>) => {
  const { db, databaseUrl } = t.context;
  const double = await startStripeDouble(t);
  const billing = await double.openBilling(db);
  const { id } = await createTestOrganization(db, {
    stripeCustomerId: `cus_${crypto.randomUUID().replaceAll("-", "")}`,
  });
  // Old enough to be sealed immediately.
  const past: Clock = { now: () => new Date(Date.now() - 10_000) };
  const later: Clock = { now: () => new Date(Date.now() + 16 * 60 * 1000) };
  const env = { DATABASE_URL: databaseUrl, ...double.env };
  const impact = (...args: readonly string[]): Promise<Run> => runImpact(args, { env });
  return {
    id,
    /** The month in which usage is registered, also if a command runs in the next one. */
    month: past.now().toISOString().slice(0, 7),
    double,
    impact,
    /** The same, 16 minutes later, when Stripe's sums can no longer lag. */
    impactLater: (...args: readonly string[]) => runImpact(args, { env, clock: later }),
    /** The same, without Stripe's settings. */
    impactWithoutStripe: (...args: readonly string[]) =>
      runImpact(args, { env: { DATABASE_URL: databaseUrl } }),
    register: async (count: number, mode: Mode = "live", clock = past): Promise<string> =>
      (await registerFor(db, id, { clock, mode, count })).id,
    refund: (registrationId: string, count: number, mode: Mode = "live") =>
      refundRegistration(
        { db, clock: systemClock, billing },
        { accountId: id, mode, kind: "tree" },
        { id: registrationId, count, reason: null, idempotencyKey: null },
      ),
    /** Sends ready usage, as a worker would, until nothing is left or an event must wait. */
    drain: async (mode: Mode = "live"): Promise<void> => {
      await drainUsage({ db, clock: systemClock, billing }, { accountId: id, mode, kind: "tree" });
    },
    failedEvents: async (): Promise<readonly string[]> => {
      const run = await impact("usage", "list", "--state", "failed", "--org", id, "--json");
      return listedEvents.parse(readJson(run)).map(({ item }) => item);
    },
    billed: () => double.control.usage({}).reduce((sum, { value }) => sum + value, 0),
  };
};

export type UsageSetup = Awaited<ReturnType<typeof setUpUsage>>;

export const setCustomer = async ({ double, impact, id }: UsageSetup): Promise<void> => {
  const { customerId } = double.control.addCustomer({});
  await impact("org", "update", id, "--stripe-customer", customerId);
};
