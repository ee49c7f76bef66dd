import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import type { StoredMeterEvent } from "../../db/billing/meterEvents.ts";
import { sql } from "../../db/sql.ts";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { Clock } from "../../domain/clock.ts";
import type { UsageStream } from "../../domain/billing/usage.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import type { DrainResult } from "../../services/billing/drainUsage.ts";
import { drainUsage } from "../../services/billing/drainUsage.ts";
import type { Refunded } from "../../services/registrations/refundRegistration.ts";
import { refundRegistration } from "../../services/registrations/refundRegistration.ts";
import { createRegistrationWriter } from "../../services/registrations/registrationWriter.ts";
import { retryUsage } from "../../services/billing/retryUsage.ts";
import { sealMeterEvent } from "../../services/billing/sealMeterEvent.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import type { StripeDouble } from "../stripeDouble/startStripeDouble.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";

/** When the subscription starts, so that the first month from here is one billing cycle. */
const NOON = Date.UTC(2026, 4, 15, 12) / 1000;

export type BillingSetup = {
  readonly deps: { readonly db: DatabasePool; readonly clock: Clock; readonly billing: Billing };
  readonly double: StripeDouble;
  readonly stream: UsageStream;
  readonly customerId: string;
  readonly subscriptionId: string;
  readonly register: (count: number, mode?: Mode) => Promise<string>;
  readonly refund: (id: string, count?: number) => Promise<Refunded>;
  /** As an API to which nobody gave Stripe's key. */
  readonly refundWithoutKey: (id: string, count?: number) => Promise<Refunded>;
  /** Moves our clock and Stripe's. */
  readonly pass: (seconds: number) => void;
  readonly drainOnce: () => Promise<DrainResult>;
  /** As a worker to which nobody gave Stripe's key. */
  readonly drainWithoutKey: () => Promise<DrainResult>;
  /** Seals what is to be sent next; null when nothing is ready. */
  readonly seal: (mode?: Mode) => Promise<StoredMeterEvent | null>;
  /** Drains as the workflow would, letting time pass where an event has to wait, until nothing is left. */
  readonly drain: () => Promise<void>;
  /** Stripe's units by second, zeros left out. */
  readonly billed: () => Record<number, number>;
  /** Registered less refunded, from the records themselves, by second. */
  readonly recorded: () => Promise<Record<number, number>>;
  readonly events: () => Promise<readonly { readonly state: string; readonly quantity: number }[]>;
  /** Retries every failed event, as support would. */
  readonly retryFailed: () => Promise<readonly ("waiting" | "delivered")[]>;
  readonly retryAs: (
    known: "delivered" | "absent",
  ) => Promise<readonly ("waiting" | "delivered")[]>;
  /** Calls that carried usage. */
  readonly sends: () => number;
};

/** An organization that is billed through the Stripe double, with one clock for both sides. */
export const setUpBilling = async (
  t: ExecutionContext<DatabaseContext>,
  {
    timeoutMs = 10_000,
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
    stripe: { secretKey: double.secretKey, apiBase: double.url, timeoutMs },
  });
  const billingWithoutKey = createBilling({ db, stripe: null });
  await billing.prepare();
  const { customerId, subscriptionId } = control.addSubscriber({});
  const { id: accountId } = await createTestOrganization(db, {
    clock,
    stripeCustomerId: customerId,
    stripeSubscriptionId: subscriptionId,
  });
  const deps = { db, clock, billing };
  const writer = createRegistrationWriter({ db, clock });
  const stream: UsageStream = { accountId, mode: "live", meter: "tree" };

  const drainWith = (present: Billing): Promise<DrainResult> =>
    drainUsage({ ...deps, billing: present }, stream, {
      signal: new AbortController().signal,
      onResult: () => undefined,
    });
  const drainOnce = (): Promise<DrainResult> => drainWith(billing);

  const refundWith = (present: Billing) => (id: string, count?: number) =>
    refundRegistration(
      { ...deps, billing: present },
      { accountId, mode: "live", kind: "tree" },
      { id, count: count ?? null, reason: null },
    );

  const retryFailed = async (known: "delivered" | "absent" | null) => {
    const ids = await db.anyFirst(sql.type(z.strictObject({ id: z.bigint() }))`
      SELECT id
      FROM meter_event
      WHERE account_id = ${accountId} AND state IN ('rejected', 'expired', 'blocked')
      ORDER BY id
    `);
    const results: ("waiting" | "delivered")[] = [];
    for (const id of ids) {
      results.push(await retryUsage(deps, id, known));
    }
    return results;
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
    drainWithoutKey: () => drainWith(billingWithoutKey),
    seal: async (mode = "live") => {
      const sealing = await sealMeterEvent(deps, { ...stream, mode });
      return sealing.kind === "event" ? sealing.event : null;
    },
    drain: async () => {
      control.advanceClock({ seconds: 5 });
      for (let round = 0; round < 200; round += 1) {
        const result = await drainOnce();
        if (result.kind === "done") {
          return;
        }
        if (result.kind === "delayed") {
          control.advanceClock({ seconds: Math.ceil((result.afterMs ?? 1000) / 1000) });
        }
      }
      throw new Error("The usage does not drain.");
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
    events: async () => {
      const rows = await db.any(sql.type(
        z.strictObject({ state: z.string(), quantity: z.bigint() }),
      )`
        SELECT state, quantity
        FROM meter_event
        WHERE account_id = ${accountId}
        ORDER BY id
      `);
      return rows.map(({ state, quantity }) => ({ state, quantity: Number(quantity) }));
    },
    retryFailed: () => retryFailed(null),
    retryAs: retryFailed,
    sends: () => control.calls().filter(({ path }) => path === "/v1/billing/meter_events").length,
  };
};
