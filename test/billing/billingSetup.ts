import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import type { Actor } from "../../modules/accounts/audit.rules.ts";
import { listFailedMeterEventIds } from "../../modules/billing/meterEventReports.sql.ts";
import { findMeterEvent } from "../../modules/billing/meterEvents.sql.ts";
import type { StoredMeterEvent } from "../../modules/billing/meterEvents.sql.ts";
import { sql } from "../../db/sql.ts";
import type { Mode, Owner } from "../../modules/records/owner.rules.ts";
import type { Clock } from "../../runtime/clock.ts";
import type {
  OperatorAnswer,
  Retry,
} from "../../modules/billing/reconciliation/retryUsage.rules.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { connectStripe } from "../../modules/billing/stripe/createStripeProcessor.ts";
import type { Billing } from "../../modules/billing/createBilling.ts";
import type { DrainResult } from "./drainUsage.ts";
import { drainUsage, sealMeterEvent } from "./drainUsage.ts";
import type { Refunded } from "../../modules/registrations/refundRegistration.ts";
import { refundRegistration } from "../../modules/registrations/refundRegistration.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { retryUsage } from "../../modules/billing/reconciliation/retryUsage.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import type { StripeDouble } from "../stripeDouble/startStripeDouble.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { sumLedgerUnits } from "../support/sumLedgerUnits.ts";

/** When the subscription starts, so that the first month from here is one billing cycle. */
const NOON = Date.UTC(2026, 4, 15, 12) / 1000;

export type BillingSetup = {
  readonly deps: {
    readonly db: DatabasePool;
    readonly clock: Clock;
    readonly billing: Billing;
    readonly actor: Actor;
  };
  readonly double: StripeDouble;
  readonly stream: Owner;
  readonly customerId: string;
  readonly subscriptionId: string;
  readonly register: (count: number, mode?: Mode) => Promise<string>;
  readonly refund: (id: string, count?: number) => Promise<Refunded>;
  /** Refunds through an API without Stripe's key. */
  readonly refundWithoutKey: (id: string, count?: number) => Promise<Refunded>;
  /** Advances our clock and Stripe's. */
  readonly pass: (seconds: number) => void;
  readonly drainOnce: () => Promise<DrainResult>;
  /** Makes it a deployment whose processor is not recorded, so that workers without Stripe's key use the ledger. */
  readonly forgetProcessor: () => Promise<void>;
  /** Drains through a worker without Stripe's key. */
  readonly drainWithoutKey: () => Promise<DrainResult>;
  /** Seals the next event; null if nothing is ready. */
  readonly seal: (mode?: Mode) => Promise<StoredMeterEvent | null>;
  /** Drains until nothing is left, as the workflow would, and lets time pass if an event has to wait. */
  readonly drain: () => Promise<void>;
  /** Stripe's units by second, without zeros. */
  readonly billed: () => Record<number, number>;
  /** Registered minus refunded units by second, from the registrations. */
  readonly recorded: () => Promise<Record<number, number>>;
  /** The meter events. The state of a failed one is why it failed. */
  readonly events: () => Promise<readonly { readonly state: string; readonly quantity: number }[]>;
  /** The units that the built-in ledger bills. */
  readonly ledgerUnits: () => Promise<number>;
  /** Retries every failed event that does not wait for another one, as an operator would. */
  readonly retryFailed: () => Promise<readonly Retry[]>;
  readonly retryAs: (answer: OperatorAnswer) => Promise<readonly Retry[]>;
  /** How many calls have sent usage. */
  readonly sends: () => number;
  /** Reports usage of the same customer from another program; by default of the current second. */
  readonly reportElsewhere: (units: number, second?: number) => Promise<void>;
};

/** Creates an organization that is billed through the Stripe double. Both sides share one clock. */
export const setUpBilling = async (
  t: ExecutionContext<DatabaseContext>,
  {
    timeoutMs = 60_000,
    ...settings
  }: { readonly timeoutMs?: number; readonly summaryDelaySeconds?: number } = {},
): Promise<BillingSetup> => {
  const { db } = t.context;
  const double = await startStripeDouble(settings);
  t.teardown(double.close);
  const { control } = double;
  control.holdClock({ second: NOON });
  const clock: Clock = { now: () => new Date(control.now() * 1000) };
  const billing = createBilling({
    db,
    stripe: connectStripe({ secretKey: double.secretKey, apiBase: double.url, timeoutMs }),
  });
  const billingWithoutKey = createBilling({ db, stripe: null });
  await billing.prepare();
  const { customerId, subscriptionId } = control.addSubscriber({});
  const { id: accountId } = await createTestOrganization(db, {
    clock,
    stripeCustomerId: customerId,
    stripeSubscriptionId: subscriptionId,
  });
  const deps = { db, clock, billing, actor: SERVICE };
  const writer = createRegistrationWriter({ db, clock });
  const stream: Owner = { accountId, mode: "live", kind: "tree" };

  const drainWith = (processors: Billing): Promise<DrainResult> =>
    drainUsage({ ...deps, billing: processors }, stream, {
      signal: new AbortController().signal,
      onResult: () => undefined,
    });
  const drainOnce = (): Promise<DrainResult> => drainWith(billing);

  const refundWith = (processors: Billing) => (id: string, count?: number) =>
    refundRegistration(
      { ...deps, billing: processors },
      { accountId, mode: "live", kind: "tree" },
      { id, count: count ?? null, reason: null, idempotencyKey: null },
    );

  const retryFailed = async (answer: OperatorAnswer | null) => {
    const results: Retry[] = [];
    for (const id of await listFailedMeterEventIds(db, { accountId })) {
      const event = await findMeterEvent(db, id);
      if (event?.waitsFor === null) {
        results.push((await retryUsage(deps, id, { answer })).retry);
      }
    }
    return results;
  };

  const events: BillingSetup["events"] = async () => {
    const rows = await db.any(sql.type(z.strictObject({ state: z.string(), quantity: z.bigint() }))`
      SELECT coalesce(failure, state) AS state, quantity
      FROM meter_event
      WHERE account_id = ${accountId}
      ORDER BY id
    `);
    return rows.map(({ state, quantity }) => ({ state, quantity: Number(quantity) }));
  };

  return {
    deps,
    double,
    stream,
    customerId,
    subscriptionId,
    register: async (count, mode = "live") => {
      const { registration } = await writer.register(registrationOf(accountId, { mode, count }));
      return registration.id;
    },
    refund: refundWith(billing),
    refundWithoutKey: refundWith(billingWithoutKey),
    pass: (seconds) => control.advanceClock({ seconds }),
    drainOnce,
    forgetProcessor: async () => {
      await db.query(sql.typeAlias("void")`
        UPDATE deployment
        SET processor = NULL, stripe_account_id = NULL, stripe_livemode = NULL
      `);
    },
    drainWithoutKey: () => drainWith(billingWithoutKey),
    seal: async (mode = "live") => {
      const sealing = await sealMeterEvent(deps, { ...stream, mode });
      return sealing.kind === "event" ? findMeterEvent(db, sealing.event.id) : null;
    },
    drain: async () => {
      control.advanceClock({ seconds: 5 });
      for (let round = 0; round < 200; round += 1) {
        const result = await drainOnce();
        if (result.kind === "done") {
          // Stripe may be asked about an event later.
          if (!(await events()).some(({ state }) => state === "pending")) {
            return;
          }
          control.advanceClock({ seconds: 60 });
        } else if (result.kind === "delayed") {
          control.advanceClock({ seconds: Math.ceil(result.afterMs / 1000) });
        }
      }
      throw new Error("The usage was not drained after 200 rounds.");
    },
    billed: () =>
      Object.fromEntries(
        control
          .usage({ customerId })
          .filter(({ value }) => value !== 0)
          .map(({ second, value }) => [second, value]),
      ),
    recorded: async () => {
      const rows = await db.any(sql.type(
        z.strictObject({ second: z.bigint(), quantity: z.bigint() }),
      )`
        SELECT floor(extract(epoch FROM created_at))::bigint AS second, sum(count - refunded_count)::bigint AS quantity
        FROM registration
        WHERE account_id = ${accountId} AND mode = 'live'
        GROUP BY 1
        HAVING sum(count - refunded_count) <> 0
      `);
      return Object.fromEntries(
        rows.map(({ second, quantity }) => [Number(second), Number(quantity)]),
      );
    },
    events,
    ledgerUnits: () => sumLedgerUnits(db, stream),
    retryFailed: () => retryFailed(null),
    retryAs: retryFailed,
    sends: () => control.calls().filter(({ path }) => path === "/v1/billing/meter_events").length,
    reportElsewhere: async (units, second = control.now()) => {
      const response = await fetch(`${double.url}/v1/billing/meter_events`, {
        method: "POST",
        headers: { authorization: `Bearer ${double.secretKey}` },
        body: new URLSearchParams({
          event_name: "impact_tree_planted",
          "payload[stripe_customer_id]": customerId,
          "payload[value]": String(units),
          timestamp: String(second),
        }),
      });
      t.is(response.status, 200);
    },
  };
};
