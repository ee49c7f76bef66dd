import type { ExecutionContext } from "ava";
import { z } from "zod";
import { recordProcessor } from "../../../modules/billing/deployment.sql.ts";
import { findLatestCustomer } from "../../../modules/billing/reconciliation/eventsInDoubt.sql.ts";
import { safeInteger, sql } from "../../../db/sql.ts";
import {
  FAILED_STATES,
  METER_EVENT_STATES,
  UNFINISHED_STATES,
} from "../../../modules/billing/meterEvents.rules.ts";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { correctFailover } from "../../../modules/billing/reconciliation/correctFailover.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { settleAfterRestore } from "../../../modules/billing/reconciliation/settleAfterRestore.ts";
import type { Random } from "../../support/random.ts";
import { createDecisions } from "./repairDecisions.ts";
import { createOperations, RETRIABLE, UNSENT } from "./repairOperations.ts";
import type { Opened } from "./repairTruth.ts";
import { listEventsIn, MINUTE, setUpWorld } from "./repairWorld.ts";
import type { Event } from "./repairWorld.ts";
import { whileReadingSums } from "./restoreSetup.ts";

const FORGOTTEN_AFTER_SECONDS = 3 * 24 * 60 * MINUTE;

const sumRow = z.strictObject({ units: safeInteger });
const customerSumRow = sumRow.extend({ customerId: z.string().nullable() });

const abort = () => new AbortController().signal;

/** A deployment in which random things happen, with an operator who decides what the sums leave unclear. */
export const setUpRandomRepairs = async (t: ExecutionContext, random: Random) => {
  const world = await setUpWorld(t, random);
  const { state, customerIds, control, stream, start, pass, log, write, labelOf, attempt } = world;
  const {
    listEvents,
    countUnsealed,
    describe,
    applyReports,
    passLag,
    send,
    setCustomer,
    moveToStripe,
  } = world;
  const decisions = createDecisions(world);
  const { retry, retryAsFound, reopen, waiveEvent, settle } = decisions;
  const { listLost, ...operations } = createOperations(world, decisions);

  /** What operators and clients do while a comparison reads its first sums. */
  const disturb = async (customerId: string | null): Promise<void> => {
    write("during the comparison:");
    if (customerId !== state.customerId) {
      await setCustomer(customerId);
    }
    for (let left = 1 + random.below(2); left > 0; left -= 1) {
      await operations[
        random.pick(["register", "refund", "waive", "retrySome", "reopenSome"] as const)
      ]();
    }
  };

  const compare = (billing: Opened["deps"]["billing"]): Promise<boolean> =>
    attempt("compare", async () => {
      const doubts = await settleAfterRestore(
        { ...state.side.deps, billing },
        { operator: "maria", since: null, isDryRun: false },
        abort(),
      );
      return doubts.map(({ event, outcome: { kind } }) => [Number(event.id), event.quantity, kind]);
    });

  /** Returns whether no drift can be left if no history has lost state.registrations or refunds. */
  const finishDelivery = async (): Promise<boolean> => {
    const keepsWaivers = random.below(2) === 0;
    const isClosed = ({ isSettled, state: of, isInDoubt }: Event) =>
      isSettled || (keepsWaivers && of === "waived" && !isInDoubt);
    if (state.customerId === null && !state.isOnLedger) {
      await setCustomer(random.pick(customerIds));
    }
    for (let round = 0; ; round += 1) {
      await passLag();
      let isDecided = false;
      for (const event of await listLost()) {
        isDecided = (await reopen(event)) || isDecided;
      }
      for (const event of await listEvents(RETRIABLE)) {
        const current = (await listEvents(RETRIABLE)).find(({ id }) => id === event.id);
        if (current && !isClosed(current)) {
          const isKept = keepsWaivers && current.state === "waived" && (await settle(current));
          isDecided = isKept || (await retry(current)) || isDecided;
        }
      }
      await send();
      for (const event of isDecided ? [] : await listEvents(["held"])) {
        // Refunds of usage that was settled, of which a lost history may have sent some.
        isDecided = (await settle(event, true)) || (await waiveEvent(event)) || isDecided;
      }
      const open = await listEvents([...UNFINISHED_STATES, ...UNSENT]);
      const unsettled = open.filter((event) => !isClosed(event));
      const unsealed = await countUnsealed();
      if (unsettled.length === 0 && unsealed === 0) {
        // Units that a sum has for lost ones are a correction's.
        return state.isExact && (await listLost()).length === 0;
      }
      if (!isDecided && round > 2) {
        for (const event of unsettled) {
          isDecided ||= await retryAsFound(event, true);
        }
      }
      if (round > 12) {
        throw new Error(`Still open: ${unsettled.map(describe).join(", ")}, ${unsealed} facts`);
      }
    }
  };

  return {
    operations,
    /** Returns what has happened, the database's events and the double's. */
    describe: async (): Promise<string> => {
      const events = await listEvents(METER_EVENT_STATES.filter((each) => each !== "superseded"));
      return [
        ...log,
        ...events.map((event) => `ours: ${describe(event)} ${event.identifier}`),
        ...control
          .events()
          .map(
            ({ identifier, customerId: of, value, rejectedWith }) =>
              `theirs: ${value} at ${labelOf(of)} ${identifier} ${rejectedWith ?? ""}`,
          ),
      ].join("\n");
    },
    /** Restores a copy from now after some time in which `happen` made history. */
    restore: async (happen: () => Promise<void>): Promise<void> => {
      await applyReports();
      const { continued, restored } = await world.fork(state.side, {
        withStripe: !state.isOnLedger,
      });
      const { isOnLedger: wasOnLedger, customerId: keptCustomerId } = state;
      const kept = state.registrations.map((registration) => ({ ...registration }));
      const unreported = [...state.reports];
      // Usage that has failed at another customer could be retried at this one before the customer changes again, and a retry
      // looks only at its own and the present one.
      state.isCustomerChangeable =
        state.customerId === null ||
        ((await findLatestCustomer(restored.db, stream.accountId)) === state.customerId &&
          (await listEventsIn(restored, UNSENT)).every(
            (event) => event.customerId === state.customerId,
          ));
      const refusedBefore = new Set(
        control.events().filter((event) => event.rejectedWith !== null),
      );
      [state.side, state.name, state.hasRestored] = [continued, "lost", true];
      await happen();
      await applyReports();
      const refused = control
        .events()
        .filter(
          (event) =>
            event.rejectedWith !== null &&
            !refusedBefore.has(event) &&
            !state.lost.has(event.identifier),
        )
        .map(({ identifier, receivedAt }) => ({
          identifier,
          refusedAt: new Date(receivedAt * 1000),
        }));
      pass(random.pick([MINUTE, FORGOTTEN_AFTER_SECONDS]));
      [state.side, state.name, state.registrations] = [restored, "restored", kept];
      await guardUsage(state.side.deps);
      state.reports = [...unreported, ...refused];
      const isMoved = wasOnLedger && !state.isOnLedger;
      const isDisturbed = random.below(3) === 0;
      const latestCustomerId = state.customerId;
      if (isMoved || !isDisturbed || random.below(2) === 0) {
        await setCustomer(latestCustomerId);
      } else {
        state.customerId = keptCustomerId;
      }
      state.isOnLedger = wasOnLedger;
      if (isMoved) {
        await moveToStripe();
      }
      await passLag();
      const { billing } = state.side.deps;
      let isDone = await compare(
        isDisturbed ? whileReadingSums(billing, () => disturb(latestCustomerId)) : billing,
      );
      if (state.customerId !== latestCustomerId) {
        await setCustomer(latestCustomerId);
      }
      // The comparisons of other minutes end after a refusal.
      for (let repeats = 0; !isDone && repeats < 5; repeats += 1) {
        isDone = await compare(billing);
      }
      t.true(isDone, "compared");
    },
    /** Bills a unit to each customer in another minute, so that reconciliations read the sums of both. */
    beginAtBoth: async (): Promise<void> => {
      for (const id of customerIds.toReversed()) {
        await setCustomer(id);
        state.registrations.push({
          id: await world.register(state.side, 1),
          second: control.now(),
          left: 1,
        });
        pass(2 * MINUTE);
        await send();
      }
    },
    /** Lets the built-in ledger bill, as if Stripe had not been set up yet. */
    beginOnLedger: async (): Promise<void> => {
      await state.side.db.transaction((transaction) =>
        recordProcessor(transaction, { name: "ledger" }, null),
      );
      await state.side.db.end();
      [state.side, state.isOnLedger] = [
        await world.open(state.side.url, { withStripe: false }),
        true,
      ];
      await setCustomer(null);
    },
    finishDelivery,
    /** Corrects what lost histories have sent. */
    correct: async (): Promise<void> => {
      // The ledger is restored with the database.
      for (let isDone = state.isOnLedger, rounds = 0; !isDone; rounds += 1) {
        t.true(rounds < 12, "corrected");
        await passLag();
        const { corrections } = await correctFailover(
          state.side.deps,
          {
            restoredAt: new Date(start * 1000),
            accountId: null,
            includeLostRefunds: true,
            document: null,
            reason: "restore",
            operator: "maria",
            isDryRun: false,
          },
          abort(),
        );
        for (const { action, ours, processorQuantity, reason, stream: of } of corrections) {
          write(
            `correct ${labelOf(of.customerId)}: ours ${ours}, theirs ${processorQuantity}: ${action} ${reason ?? ""}`,
          );
        }
        isDone = corrections.length === 0;
        await send();
      }
    },
    /** Returns the drift of each stream. */
    readDrift: async (): Promise<Record<string, number | null>> => {
      await passLag();
      const { streams } = await reconcileUsage(state.side.deps, {}, abort());
      return Object.fromEntries(
        streams
          .map(
            ({ customerId: of, drift, acknowledged }) =>
              [labelOf(of), drift === null ? null : drift - acknowledged] as const,
          )
          .filter(([, drift]) => drift !== 0),
      );
    },
    /** Returns the units that documents bill, or that are never billed. */
    closedUnits: async () =>
      (await listEvents(["waived"])).reduce(
        (sum, { isSettled, quantity }) => sum + (isSettled ? 0 : quantity),
        state.settledUnits,
      ),
    sumRegistered: () => state.registrations.reduce((sum, { left }) => sum + left, 0),
    theirs: async (): Promise<Record<string, number>> =>
      Object.fromEntries([
        [
          "ledger",
          await state.side.db.oneFirst(sql.type(sumRow)`
          SELECT coalesce(sum(quantity), 0)::bigint AS units FROM ledger_usage
        `),
        ] as const,
        ...customerIds.map(
          (id) =>
            [
              labelOf(id),
              control.usage({ customerId: id }).reduce((sum, { value }) => sum + value, 0),
            ] as const,
        ),
      ]),
    ours: async (): Promise<Record<string, number>> => {
      const sums = await state.side.db.any(sql.type(customerSumRow)`
        SELECT customer_id AS "customerId", sum(quantity)::bigint AS units
        FROM (
          SELECT customer_id, quantity FROM meter_event WHERE state = 'delivered'
          UNION ALL
          SELECT customer, units FROM acknowledged_drift
        ) AS explained
        GROUP BY customer_id
      `);
      return Object.fromEntries([
        ...[null, ...customerIds].map((id) => [id === null ? "ledger" : labelOf(id), 0] as const),
        ...sums.map(
          ({ customerId: of, units }) => [of === null ? "ledger" : labelOf(of), units] as const,
        ),
      ]);
    },
    countFailed: async () => (await listEvents(FAILED_STATES)).length,
    problems: () => control.problems(),
  };
};
