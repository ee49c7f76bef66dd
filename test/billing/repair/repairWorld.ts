import type { ExecutionContext } from "ava";
import { z } from "zod";
import { insertProcessorEvent } from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { safeInteger, sql } from "../../../db/sql.ts";
import type { MeterEventState } from "../../../modules/billing/meterEvents.rules.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { connectStripe } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { updateOrganization } from "../../../modules/accounts/updateOrganization.ts";
import { moveToStripe as moveUsageToStripe } from "../../../modules/billing/moveToStripe.ts";
import { applyRejectionReport } from "../../../modules/billing/processorEvents/applyRejectionReport.ts";
import type { Random } from "../../support/random.ts";
import { createTruth } from "./repairTruth.ts";
import type { Opened } from "./repairTruth.ts";
import { setUpRestore } from "./restoreSetup.ts";

export const MINUTE = 60;
export const LAG_SECONDS = 16 * MINUTE;

const eventRow = z.strictObject({
  id: z.bigint(),
  identifier: z.string(),
  state: z.string(),
  quantity: safeInteger,
  customerId: z.string().nullable(),
  isSettled: z.boolean(),
  isInDoubt: z.boolean(),
});

export const sumRow = z.strictObject({ units: safeInteger });

/** A meter event, as far as the operator looks at it. */
export type Event = Readonly<z.output<typeof eventRow>>;

/** Lists the meter events of a database that are in one of some states. */
export const listEventsIn = ({ db }: Opened, states: readonly MeterEventState[]) =>
  db.any(sql.type(eventRow)`
    SELECT
      id, identifier, state, quantity, customer_id AS "customerId", settlement_reference IS NOT NULL AS "isSettled",
      outcome_unknown AS "isInDoubt"
    FROM meter_event
    WHERE state = ANY(${sql.array([...states], "text")})
    ORDER BY id
  `);

type State = {
  /** The database that is the present one, and what the log calls it. */
  side: Opened;
  name: "original" | "lost" | "restored";
  /** What was registered in the present history, and what remains of it. */
  registrations: { readonly id: string; readonly second: number; left: number }[];
  /** Late refusals that were not reported in the present history. */
  reports: { readonly identifier: string; readonly refusedAt: Date }[];
  /** The identifiers of what Stripe has lost and never reports. */
  readonly lost: Set<string>;
  /** The organization's Stripe customer. */
  customerId: string | null;
  /** What documents have billed by hand. */
  settledUnits: number;
  /** Whether the built-in ledger bills live usage, until it is moved to Stripe. */
  isOnLedger: boolean;
  hasRestored: boolean;
  /** Whether a lost history may change the customer. */
  isCustomerChangeable: boolean;
  /** Whether the operator has assumed nothing that contradicts what the sums have led to, so that no drift can be left. */
  isExact: boolean;
};

/** A deployment, its history so far, and what every operation needs. The log names what has happened. */
export const setUpWorld = async (t: ExecutionContext, random: Random) => {
  const scene = await setUpRestore(t);
  const { control, stream, pass, drain } = scene;
  const stripe = { secretKey: scene.double.secretKey, apiBase: scene.double.url };
  // Long, but no longer than the service waits.
  control.changeSettings({ summaryDelaySeconds: 14 * MINUTE });
  const customerIds = [scene.customerId, control.addCustomer({}).customerId] as const;
  const truth = createTruth(scene);
  const start = control.now();
  const log: string[] = [];
  const state: State = {
    side: scene.original,
    name: "original",
    registrations: [],
    reports: [],
    lost: new Set(),
    customerId: scene.customerId,
    settledUnits: 0,
    isOnLedger: false,
    hasRestored: false,
    isCustomerChangeable: false,
    isExact: true,
  };

  const write = (line: string): void => {
    log.push(`${state.name} ${control.now() - start}s: ${line}`);
  };
  const labelOf = (id: string | null): string =>
    id === null ? "no customer" : `c${customerIds.findIndex((each) => each === id)}`;

  /** Does what the service may refuse, and records what it did. */
  const attempt = async (line: string, work: () => Promise<unknown>): Promise<boolean> => {
    try {
      const result = await work();
      write(
        `${line}: ${JSON.stringify(result, (_, value: unknown) => (typeof value === "bigint" ? Number(value) : value)) ?? "done"}`,
      );
      return true;
    } catch (error) {
      if (!(error instanceof DomainError)) {
        throw error;
      }
      write(`${line}: refused: ${error.message}`);
      return false;
    }
  };

  const listEvents = (states: readonly MeterEventState[]) => listEventsIn(state.side, states);
  const countUnsealed = () =>
    state.side.db.oneFirst(sql.type(sumRow)`
      SELECT count(*) AS units FROM usage_fact WHERE meter_event_id IS NULL
    `);
  const describe = ({ id, quantity, customerId, ...event }: Event): string =>
    `${id} (${event.state} ${quantity} at ${labelOf(customerId)})`;

  const applyReports = async (): Promise<void> => {
    for (const { identifier, refusedAt } of state.reports) {
      const now = state.side.deps.clock.now();
      const id = `evt_${crypto.randomUUID()}`;
      const type = "v1.billing.meter.error_report_triggered";
      await insertProcessorEvent(
        state.side.db,
        { id, type, objectId: null, createdAt: refusedAt },
        now,
      );
      try {
        await applyRejectionReport({ ...state.side.deps, observeRejection: () => undefined }, id, {
          windowStart: refusedAt,
          windowEnd: refusedAt,
          rejections: [
            { code: "archived_meter", errors: 1, samples: [{ identifier, message: "refused" }] },
          ],
        });
        write(`report of ${identifier}`);
      } catch (error) {
        // The worker repeats it.
        write(`report of ${identifier}: ${String(error)}`);
        continue;
      }
      state.reports = state.reports.filter((report) => report.identifier !== identifier);
    }
  };

  /** Waits until the sums show what was sent, and Stripe has reported what it has refused. */
  const passLag = async (): Promise<void> => {
    await applyReports();
    pass(LAG_SECONDS);
  };

  const send = async (): Promise<void> => {
    const result = await drain(state.side);
    await truth.record(state.side);
    write(`drain: ${result.kind}`);
  };

  const setCustomer = async (id: string | null): Promise<void> => {
    state.customerId = id;
    await updateOrganization(state.side.deps, stream.accountId, {
      stripeCustomerId: id,
      stripeSubscriptionId: null,
    });
    write(`customer ${labelOf(id)}`);
  };

  /** Moves the ledger's usage, and what workers send from now on, to Stripe. */
  const moveToStripe = async (): Promise<void> => {
    const deps = {
      ...state.side.deps,
      billing: createBilling({ db: state.side.db, stripe: connectStripe(stripe) }),
    };
    const { usage } = await moveUsageToStripe(deps, { isDryRun: false, operator: "maria" });
    write(`move ${usage.reduce((sum, { quantity }) => sum + quantity, 0)} units to Stripe`);
    await state.side.db.end();
    [state.side, state.isOnLedger] = [await scene.open(state.side.url), false];
  };

  return {
    ...scene,
    random,
    state,
    customerIds,
    truth,
    start,
    log,
    write,
    labelOf,
    attempt,
    listEvents,
    countUnsealed,
    describe,
    applyReports,
    passLag,
    send,
    setCustomer,
    moveToStripe,
  };
};

export type World = Awaited<ReturnType<typeof setUpWorld>>;
