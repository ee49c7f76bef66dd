import type { ExecutionContext } from "ava";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { connectStripe } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import type { DrainResult } from "../drainUsage.ts";
import { drainUsage } from "../drainUsage.ts";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { refundRegistration } from "../../../modules/registrations/refundRegistration.ts";
import { runImpact } from "../../cli/runImpact.ts";
import type { Run } from "../../cli/runImpact.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { copyDatabase, openTestPool } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";

/** When the double's clock stands at first. */
const NOON = Date.UTC(2026, 4, 15, 12) / 1000;

/** A deployment that is billed through the double. Its database can be copied, which is a restore. */
export const setUpRestore = async (t: ExecutionContext) => {
  const double = await startStripeDouble();
  t.teardown(double.close);
  const { control } = double;
  control.holdClock({ second: NOON });
  const clock = { now: () => new Date(control.now() * 1000) };
  const { customerId, subscriptionId } = control.addSubscriber({});
  const stripe = { secretKey: double.secretKey, apiBase: double.url };

  const open = async (url: string, { withStripe = true } = {}) => {
    // Many of these tests run at the same time.
    const db = await openTestPool(t, url, 4);
    const deps = {
      db,
      clock,
      billing: createBilling({ db, stripe: withStripe ? connectStripe(stripe) : null }),
      actor: SERVICE,
    };
    await deps.billing.prepare();
    return { url, db, deps };
  };
  type Opened = Awaited<ReturnType<typeof open>>;

  const original = await open(await copyDatabase(t));
  const { id: accountId } = await createTestOrganization(original.db, {
    clock,
    stripeCustomerId: customerId,
    stripeSubscriptionId: subscriptionId,
  });
  await guardUsage(original.deps);
  const stream = { accountId, mode: "live", kind: "tree" } as const;
  return {
    double,
    control,
    stream,
    original,
    pass: (seconds: number) => control.advanceClock({ seconds }),
    /** Copies the database, and returns both sides opened. */
    fork: async (from: Opened, options: { readonly withStripe?: boolean } = {}) => {
      await from.db.end();
      const copy = await copyDatabase(t, from.url);
      return { continued: await open(from.url, options), restored: await open(copy, options) };
    },
    customerId,
    subscriptionId,
    register: async (
      { deps }: Opened,
      count: number,
      idempotencyKey: string | null = null,
    ): Promise<string> => {
      const writer = createRegistrationWriter(deps);
      const { registration } = await writer.register(
        registrationOf(accountId, { count, idempotencyKey }),
      );
      return registration.id;
    },
    refund: ({ deps }: Opened, id: string, count: number) =>
      refundRegistration(
        deps,
        { accountId, mode: "live", kind: "tree" },
        { id, count, reason: null, idempotencyKey: null },
      ),
    drain: ({ deps }: Opened): Promise<DrainResult> => drainUsage(deps, stream),
    impact: ({ url }: Opened, ...args: readonly string[]): Promise<Run> =>
      runImpact(args, {
        env: {
          DATABASE_URL: url,
          STRIPE_SECRET_KEY: double.secretKey,
          STRIPE_API_BASE: double.url,
        },
        clock,
      }),
    /** Reports usage of a customer from another program. */
    reportElsewhere: (units: number, second: number): void =>
      control.acceptEvent({ customerId, units, second }),
  };
};
