import type { ExecutionContext } from "ava";
import { z } from "zod";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { findMeterEvent } from "../../modules/billing/meterEvents.sql.ts";
import type { StoredMeterEvent } from "../../modules/billing/meterEvents.rules.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import type { Mode, Owner } from "../../modules/records/owner.rules.ts";
import type { OperatorContext } from "../../modules/accounts/context.ts";
import type { BillingContext } from "../../modules/billing/context.ts";
import type { Control } from "../stripeDouble/createControl.ts";
import type { Retry } from "../../modules/billing/reconciliation/repairUsage.rules.ts";
import { refreshSubscription } from "../../modules/billing/processorEvents/readSubscription.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import type { Billing } from "../../modules/billing/createBilling.ts";
import type { DrainResult } from "./drainUsage.ts";
import { beginAttempt, drainUsage } from "./drainUsage.ts";
import { retryUsage } from "../../modules/billing/reconciliation/repairUsage.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization, refundFor, registerFor } from "../support/factories.ts";
import { sumLedgerUnits } from "../support/accountSums.ts";

/** When the subscription starts, so that the first month from here is one billing cycle. */
const NOON = Date.UTC(2026, 4, 15, 12) / 1000;

/** Lists the failed events of an account, oldest first. */
export const listFailedEvents = (
  db: BillingContext["db"],
  { accountId }: { readonly accountId: string },
): Promise<readonly bigint[]> =>
  db.anyFirst(sql.type(z.strictObject({ id: z.bigint() }))`
    SELECT id FROM meter_event WHERE state = 'failed' AND account_id = ${accountId} ORDER BY id
  `);

/** Creates an organization with its customer at the Stripe double. */
export const createBilledOrganization = async (
  deps: BillingContext & OperatorContext,
  control: Control,
  {
    customerId,
    subscriptionId,
  }: {
    readonly customerId: string;
    readonly subscriptionId: string | null;
  } = control.addSubscriber({}),
) => {
  const { db, clock } = deps;
  const { id: accountId } = await createTestOrganization(db, {
    clock,
    stripeCustomerId: customerId,
    stripeSubscriptionId: subscriptionId,
  });
  const stream: Owner = { accountId, mode: "live", kind: "tree" };
  const refundWith = (billing: Billing) => (id: string, count?: number) =>
    refundFor({ ...deps, billing }, stream, id, count);
  return {
    stream,
    customerId,
    register: async (count: number, mode: Mode = "live"): Promise<string> =>
      (await registerFor(db, accountId, { clock, mode, count })).id,
    refundWith,
    refund: refundWith(deps.billing),
    /** Returns Stripe's units over all seconds. */
    units: (): number => control.units({ customerId }),
  };
};

/** Creates an organization that is billed through the Stripe double. Both sides share one clock. */
export const setUpBilling = async (
  t: ExecutionContext<DatabaseContext>,
  {
    timeoutMs = 60_000,
    ...settings
  }: { readonly timeoutMs?: number; readonly summaryDelaySeconds?: number } = {},
) => {
  const { db } = t.context;
  const double = await startStripeDouble(t, settings);
  const { clock, control } = double;
  control.holdClock({ second: NOON });
  const billing = await double.openBilling(db, { timeoutMs });
  const billingWithoutKey = createBilling({ db, stripe: null });
  const deps = { db, clock, billing, actor: SERVICE };
  const subscriber = control.addSubscriber({});
  const { subscriptionId } = subscriber;
  const organization = await createBilledOrganization(deps, control, subscriber);
  const { stream, customerId } = organization;
  const { accountId } = stream;

  const drainOnce = (): Promise<DrainResult> => drainUsage(deps, stream);

  /** Retries every failed event that does not wait for another one, as an operator would. */
  const retryFailed = async (): Promise<readonly Retry[]> => {
    const results: Retry[] = [];
    for (const id of await listFailedEvents(db, { accountId })) {
      const event = await findMeterEvent(db, id);
      if (event?.waitsFor === null) {
        results.push((await retryUsage(deps, id)).retry);
      }
    }
    return results;
  };

  /** The meter events. The state of a failed one is why it failed. */
  const events = () =>
    db.any(sql.type(z.strictObject({ state: z.string(), quantity: safeInteger }))`
      SELECT coalesce(failure, state) AS state, quantity
      FROM meter_event
      WHERE account_id = ${accountId}
      ORDER BY id
    `);

  return {
    deps,
    double,
    ...organization,
    subscriptionId,
    refundWithoutKey: organization.refundWith(billingWithoutKey),
    /** Advances our clock and Stripe's. */
    pass: (seconds: number): void => control.advanceClock({ seconds }),
    drainOnce,
    /** Makes it a deployment whose processor is not recorded, so that workers without Stripe's key use the ledger. */
    forgetProcessor: () =>
      db.query(sql.typeAlias("void")`
        UPDATE deployment
        SET processor = NULL, stripe_account_id = NULL, stripe_livemode = NULL
      `),
    /** Reads the organization's subscription from Stripe. */
    refresh: () => refreshSubscription(deps, accountId, AbortSignal.timeout(60_000)),
    drainWithoutKey: (): Promise<DrainResult> =>
      drainUsage({ ...deps, billing: billingWithoutKey }, stream),
    /** Begins the next attempt, as a process that is killed then; null if nothing is ready. */
    seal: async (mode: Mode = "live"): Promise<StoredMeterEvent | null> => {
      const { sealing } = await beginAttempt(deps, { ...stream, mode });
      return sealing.kind === "event" ? sealing.event : null;
    },
    /** Drains until nothing is left, as the workflow would, and lets time pass if an event has to wait. */
    drain: async (): Promise<void> => {
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
    /** Stripe's units by second, without zeros. */
    billed: (): Record<number, number> =>
      Object.fromEntries(
        control
          .usage({ customerId })
          .filter(({ value }) => value !== 0)
          .map(({ second, value }) => [second, value]),
      ),
    /** Registered minus refunded units by second, from the registrations. */
    recorded: async (): Promise<Record<number, number>> => {
      const recordedRow = z.strictObject({ second: safeInteger, quantity: safeInteger });
      const rows = await db.any(sql.type(recordedRow)`
        SELECT floor(extract(epoch FROM created_at))::bigint AS second, sum(count - refunded_count)::bigint AS quantity
        FROM registration
        WHERE account_id = ${accountId} AND mode = 'live'
        GROUP BY 1
        HAVING sum(count - refunded_count) <> 0
      `);
      return Object.fromEntries(rows.map(({ second, quantity }) => [second, quantity]));
    },
    events,
    /** The units that the built-in ledger bills. */
    ledgerUnits: (): Promise<number> => sumLedgerUnits(db, stream),
    retryFailed,
    /** How many calls have sent usage. */
    sends: control.sends,
    /** Reports usage of the same customer from another program; by default of the current second. */
    reportElsewhere: (units: number, second = control.now()): void =>
      control.acceptEvent({ customerId, units, second }),
  };
};

export type BillingSetup = Awaited<ReturnType<typeof setUpBilling>>;
