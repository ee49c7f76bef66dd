import { mock } from "node:test";
import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import { findAccount } from "../../../modules/accounts/accounts.sql.ts";
import { updateOrganization } from "../../../modules/accounts/manageOrganizations.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { listMeterEvents, listOpenUsage } from "../../../modules/billing/meterEventReports.sql.ts";
import {
  meterEventRow,
  METER_EVENT_STATES,
  RETRIED_CAUSES,
} from "../../../modules/billing/meterEvents.rules.ts";
import { meterEventColumns } from "../../../modules/billing/meterEvents.sql.ts";
import type {
  StoredMeterEvent,
  MeterEventState,
} from "../../../modules/billing/meterEvents.rules.ts";
import { retryEach } from "../../../modules/billing/reconciliation/repairUsage.ts";
import type { RetriedItem } from "../../../modules/billing/reconciliation/repairUsage.ts";
import { defaultSpan } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { applyRefusalReport } from "../../../modules/billing/processorEvents/processProcessorEvents.ts";
import { insertProcessorEvent } from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { connectStripe } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { minuteOf } from "../../../modules/billing/usage.rules.ts";
import type { Span } from "../../../modules/billing/usage.rules.ts";
import { listWaitingStreams } from "../../../modules/billing/sending/waitingStreams.sql.ts";
import { METERS } from "../../../modules/billing/stripe/meters.ts";
import { KINDS } from "../../../modules/records/owner.rules.ts";
import type { Kind } from "../../../modules/records/owner.rules.ts";
import { kindColumn } from "../../../modules/records/columns.sql.ts";
import { safeInteger, sql } from "../../../db/sql.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { createTestOrganization, refundFor, registerFor } from "../../support/factories.ts";
import { beginAttempt, drainUsage } from "../drainUsage.ts";
import type { SavedDatabase } from "../../support/savedDatabase.ts";

export const MINUTE = 60;

export const NOON = Date.UTC(2026, 4, 15, 12) / 1000;

/** Longer than Stripe's sums lag here. */
export const LAG_SECONDS = 16 * MINUTE;

/** A comparison narrows differences down from the whole span to days, hours and minutes. */
const COARSE_SECONDS = [Infinity, 24 * 60 * MINUTE, 60 * MINUTE];

const unitsRow = z.strictObject({ kind: kindColumn, second: safeInteger, units: safeInteger });
const deliveredRow = unitsRow.extend({ customerId: z.string() });

/** An account, and the customer that it has got. */
export type CustomerChange = readonly [accountId: string, customerId: string | null];

/** What has been registered, and what remains of it. */
export type Registration = {
  readonly id: string;
  readonly accountId: string;
  readonly kind: Kind;
  readonly second: number;
  left: number;
};

type Units = { readonly kind: Kind; readonly second: number; readonly units: number };

/** Returns the minutes in which units do not add up to 0, by key. */
const sumMinutes = <Entry extends Units>(
  entries: readonly Entry[],
  keyOf: (entry: Entry) => string,
): Readonly<Record<string, readonly { readonly minute: number; readonly units: number }[]>> => {
  const sums = Array.from(Map.groupBy(entries, keyOf), ([key, ofKey]) => {
    const minutes = Map.groupBy(ofKey, ({ second }) => minuteOf(second).start);
    const added = Array.from(minutes, ([minute, parts]) => ({
      minute,
      units: parts.reduce((sum, { units }) => sum + units, 0),
    }));
    return [key, added.filter(({ units }) => units !== 0)] as const;
  });
  return Object.fromEntries(sums.filter(([, minutes]) => minutes.length > 0));
};

/**
 * A deployment with several organizations, whose customers at Stripe change and pass from one to another, and its own truth: what was
 * registered and refunded, and what documents have billed or returned.
 * @param options.accounts of which each has another customer at first
 * @param options.startsOnLedger whether the built-in ledger bills, and the accounts have no customers, until Stripe does
 */
export const createWorld = async (
  t: ExecutionContext,
  database: SavedDatabase,
  { accounts = 3, startsOnLedger = false } = {},
) => {
  let { db } = database;
  const double = await startStripeDouble(t);
  const { control } = double;
  control.holdClock({ second: NOON });
  control.changeSettings({ summaryDelaySeconds: 14 * MINUTE });
  let skewSeconds = 0;
  const clock = { now: () => new Date((control.now() + skewSeconds) * 1000) };
  const createDeps = (withStripe: boolean) => ({
    db,
    clock,
    billing: createBilling({ db, stripe: withStripe ? connectStripe(double.stripe) : null }),
    actor: SERVICE,
  });
  let isOnLedger = startsOnLedger;
  let deps = createDeps(!isOnLedger);
  const subscribers = Array.from({ length: 5 }, () => control.addSubscriber({}));
  const customerIds = subscribers.map(({ customerId }) => customerId);
  const accountIds: string[] = [];
  const log: string[] = [];
  /** What operators have set, in order. */
  const customerChanges: CustomerChange[] = [];
  let registrations: Registration[] = [];
  /** What documents have billed; negative if they returned it. They outlive a restore. */
  const documents: Units[] = [];
  /** Late refusals that Stripe has not reported yet. */
  let reports: { readonly identifier: string; readonly refusedAt: Date }[] = [];

  const write = (line: string): void => {
    log.push(`${control.now() - NOON}s: ${line}`);
  };
  const labelOf = (id: string | null): string =>
    id === null ? "no customer" : `c${customerIds.indexOf(id)}`;
  const accountLabelOf = (id: string): string => `a${accountIds.indexOf(id)}`;
  const describe = (event: StoredMeterEvent): string =>
    `E${event.id} (${event.failure ?? event.state} ${event.quantity} ${event.kind} at ${labelOf(event.customerId)}, second ${event.second - NOON})`;

  /** Does what the service may refuse, and records what it did. */
  const attempt = async (line: string, work: () => Promise<unknown>): Promise<boolean> => {
    try {
      await work();
      write(line);
      return true;
    } catch (error) {
      if (!(error instanceof DomainError)) {
        throw error;
      }
      write(`${line}: refused: ${error.message}`);
      return false;
    }
  };

  const applyReports = async (): Promise<void> => {
    for (const report of reports) {
      const id = `evt_${crypto.randomUUID()}`;
      const type = "v1.billing.meter.error_report_triggered";
      await insertProcessorEvent(db, { id, type, objectId: null }, clock.now());
      try {
        await applyRefusalReport(deps, id, {
          windowEnd: report.refusedAt,
          reasons: new Map([[report.identifier, "refused"]]),
        });
      } catch {
        // It is still being sent; the worker repeats the report.
        continue;
      }
      reports = reports.filter((each) => each !== report);
      write(`report of ${report.identifier}`);
    }
  };

  const addAccount = async (customerId: string | null): Promise<string> => {
    const { id } = await createTestOrganization(db, { clock, stripeCustomerId: customerId });
    accountIds.push(id);
    return id;
  };

  const pass = (seconds: number): void => control.advanceClock({ seconds });

  const setCustomer = async (accountId: string, customerId: string | null): Promise<void> => {
    await updateOrganization(deps, accountId, {
      stripeCustomerId: customerId,
      stripeSubscriptionId: null,
    });
    customerChanges.push([accountId, customerId]);
    write(`${accountLabelOf(accountId)} has ${labelOf(customerId)}`);
  };

  /** Sends what is ready through a process, as the sender does. */
  const sendWith = async (
    sender: typeof deps,
    send: typeof beginAttempt | typeof drainUsage = drainUsage,
  ) => {
    for (const { accountId, kind } of await listWaitingStreams(sender.db)) {
      await send(sender, { accountId, mode: "live", kind });
    }
  };

  await deps.billing.prepare();
  await guardUsage(deps);
  for (let place = 0; place < accounts; place += 1) {
    await addAccount(startsOnLedger ? null : (customerIds[place] ?? null));
  }

  const readStripe = () =>
    control.usage({}).map(({ customer, meter, second, value }) => ({
      customerId: customer,
      kind: KINDS.find((kind) => METERS[kind].eventName === meter) ?? "tree",
      second,
      units: value,
    }));

  /** Returns the minutes in which Stripe's units of a customer and kind are not what counts as delivered. */
  const compareWithStripe = async () => {
    const ours = await db.any(sql.type(deliveredRow)`
      SELECT customer_id AS "customerId", kind, second, -quantity AS units
      FROM meter_event
      WHERE state = 'delivered' AND customer_id IS NOT NULL
    `);
    return sumMinutes(
      [...ours, ...readStripe()],
      ({ customerId, kind }) => `${labelOf(customerId)} ${kind}`,
    );
  };

  return {
    control,
    double,
    database,
    customerIds,
    subscriptionIds: subscribers.map(({ subscriptionId }) => subscriptionId),
    customerChanges,
    accountIds,
    log,
    write,
    describe,
    attempt,
    pass,
    applyReports,
    addAccount,
    setCustomer,
    deps: () => deps,
    isOnLedger: () => isOnLedger,
    /** Does something on a machine whose clock is ahead of the database's and Stripe's, or behind them. */
    onClock: async <Result>(aheadSeconds: number, work: () => Promise<Result>): Promise<Result> => {
      if (aheadSeconds === 0) {
        return work();
      }
      mock.timers.enable({ apis: ["Date"], now: Date.now() + aheadSeconds * 1000 });
      skewSeconds = aheadSeconds;
      write(`the clock is ${aheadSeconds}s ahead`);
      try {
        return await work();
      } finally {
        skewSeconds = 0;
        mock.timers.reset();
      }
    },
    registrations: () => registrations,
    report: (identifier: string) => {
      reports.push({ identifier, refusedAt: clock.now() });
    },
    passLag: async () => {
      await applyReports();
      pass(LAG_SECONDS);
    },
    listDifferences: (): Promise<readonly StoredMeterEvent[]> =>
      listMeterEvents(db, { state: "difference", accountId: null, limit: 1000 }),
    /** Retries all that is open, as `usage retry --all` does. */
    retryAll: async (isDryRun = false): Promise<readonly RetriedItem[]> =>
      retryEach(deps, await listOpenUsage(db, RETRIED_CAUSES), { isDryRun }),
    /** Lists events, but no open differences. */
    listEvents: (
      states: readonly MeterEventState[] = METER_EVENT_STATES,
    ): Promise<readonly StoredMeterEvent[]> =>
      db.any(sql.type(meterEventRow)`
        SELECT ${meterEventColumns}
        FROM meter_event
        WHERE state = ANY(${sql.array([...states], "text")}) AND failure IS DISTINCT FROM 'difference'
        ORDER BY id
      `),
    /** Everything since the start that the sums can show: days in which nothing has happened would cost the comparison most of its time. */
    comparedSpan: () => ({ start: NOON, end: Math.max(NOON, defaultSpan(clock.now()).end) }),
    hasPending: async (): Promise<boolean> => (await listWaitingStreams(db)).length > 0,
    register: async (
      accountId: string,
      count: number,
      { kind = "tree", second = control.now() }: { kind?: Kind; second?: number } = {},
    ): Promise<Registration> => {
      const at = { now: () => new Date(second * 1000) };
      const { id } = await registerFor(db, accountId, { clock: at, count, kind });
      const registered = { id, accountId, kind, second, left: count };
      registrations.push(registered);
      write(`register ${count} ${kind} for ${accountLabelOf(accountId)} at ${second - NOON}s`);
      return registered;
    },
    refund: async (registration: Registration, count: number): Promise<void> => {
      const { id, accountId, kind, second } = registration;
      await refundFor(deps, { accountId, mode: "live", kind }, id, count);
      registration.left -= count;
      write(`refund ${count} ${kind} for ${accountLabelOf(accountId)} of ${second - NOON}s`);
    },
    sendWith,
    /** Begins the attempts that are ready, as a process that is killed then. */
    beginAttempts: async (): Promise<void> => {
      await sendWith(deps, beginAttempt);
      write("begin and be killed");
    },
    send: async (): Promise<void> => {
      await sendWith(deps);
      write("send");
    },
    /** Sends usage to Stripe as another program, or as a database that has used an identifier of ours. */
    sendElsewhere: (usage: Units, customerId: string, identifier?: string): boolean => {
      const { kind, second, units } = usage;
      const line = `${units} ${kind} at ${labelOf(customerId)} as ${identifier}`;
      try {
        control.acceptEvent({ ...usage, customerId, ...(identifier ? { identifier } : {}) });
      } catch (error) {
        write(`${line}: ${String(error)}`);
        return false;
      }
      write(`${line}, second ${second - NOON}`);
      return true;
    },
    bill: (units: Units): void => {
      documents.push(units);
    },
    /** Makes Stripe the processor of what is sealed from now on, as docs/operations.md says. */
    leaveLedger: async (): Promise<void> => {
      await db.query(sql.typeAlias("void")`UPDATE deployment SET processor = NULL`);
      isOnLedger = false;
      deps = createDeps(true);
      await deps.billing.prepare();
      write("Stripe bills");
    },
    /** Lets history go on for a while, and goes on with the database from before, as a restore does. */
    restore: async (happen: () => Promise<void> = () => Promise.resolve()): Promise<void> => {
      await applyReports();
      const saved = await database.save();
      const kept = registrations.map((registration) => ({ ...registration }));
      const keptReports = [...reports];
      customerChanges.length = 0;
      const wasOnLedger = isOnLedger;
      write("--- what follows is lost");
      await happen();
      await database.restore(saved, { onNewServer: true });
      registrations = kept;
      // Stripe repeats its webhooks for days.
      reports = [...new Set([...keptReports, ...reports])];
      isOnLedger = wasOnLedger;
      deps = createDeps(!isOnLedger);
      await guardUsage(deps);
      write("--- restored");
    },
    /** Goes on with another database, such as a copy or a standby that was promoted, and with what had been registered in it. */
    continueWith: async (other: DatabasePool, registered: readonly Registration[]) => {
      db = other;
      registrations = [...registered];
      deps = createDeps(!isOnLedger);
      await guardUsage(deps);
    },
    customerOf: async (accountId: string): Promise<string | null> =>
      (await findAccount(db, accountId))?.stripeCustomerId ?? null,
    /**
     * Returns the minutes in which what Stripe, the ledger and documents have, and what is never billed, is not what was registered
     * minus what was refunded.
     */
    compareWithTruth: async () => {
      const own = await db.any(sql.type(unitsRow)`
        SELECT kind, second, quantity AS units
        FROM meter_event
        WHERE (state = 'closed' AND document_reference IS NULL) OR (state = 'delivered' AND processor = 'ledger')
      `);
      const recorded = registrations.map(({ kind, second, left }) => ({
        kind,
        second,
        units: -left,
      }));
      const billed = [...documents, ...own, ...readStripe()];
      return sumMinutes<Units>([...billed, ...recorded], ({ kind }) => kind);
    },
    compareWithStripe,
    /** Returns the minutes that a comparison does not find: differences add up to zero in all of it, a day or an hour. */
    listHiddenMinutes: async (): Promise<readonly Span[]> => {
      const differing = Object.values(await compareWithStripe());
      const hidden = differing.flatMap((minutes) =>
        COARSE_SECONDS.flatMap((seconds) =>
          [...Map.groupBy(minutes, ({ minute }) => Math.floor(minute / seconds)).values()]
            .filter((part) => part.reduce((sum, { units }) => sum + units, 0) === 0)
            .flat(),
        ),
      );
      return [...new Set(hidden.map(({ minute }) => minute))].map(minuteOf);
    },
  };
};

export type World = Awaited<ReturnType<typeof createWorld>>;
