import {
  findReconciliationDifference,
  listReconciliationDifferences,
  listReconciliationStreams,
} from "../../../modules/billing/reconciliation/reconciliations.sql.ts";
import { FAILED_STATES } from "../../../modules/billing/meterEvents.rules.ts";
import { runReconciliation } from "../../../modules/billing/reconciliation/runReconciliation.ts";
import type { Fault } from "../../stripeDouble/faults.ts";
import type { Decisions } from "./repairDecisions.ts";
import { whileReadingSums } from "./restoreSetup.ts";
import { LAG_SECONDS, MINUTE } from "./repairWorld.ts";
import type { World } from "./repairWorld.ts";

const REFUSAL: Fault = {
  kind: "respond",
  status: 400,
  body: { error: { type: "invalid_request_error", message: "No such customer: 'cus_gone'" } },
};

const FAULTS: readonly Fault[] = [
  REFUSAL,
  REFUSAL,
  { kind: "drop" },
  { kind: "drop", applied: true },
  { kind: "server_error_saved", applied: true },
];

export const RETRIABLE = [...FAILED_STATES, "waived"] as const;
export const UNSENT = [...RETRIABLE, "held"] as const;

/** What can happen to a deployment. Each returns whether it was possible. */
export const createOperations = (
  world: World,
  { retry, retryAsFound, reopen, waiveEvent, settle, acknowledge }: Decisions,
) => {
  const { random, state, customerIds, control, start, pass, write, applyReports, passLag } = world;
  const { listEvents, countUnsealed, send, setCustomer } = world;

  const register = async (): Promise<boolean> => {
    const count = 1 + random.below(12);
    // A transaction that took long, of a second that may have been sealed since.
    const recent = state.registrations.filter(({ second }) => second > control.now() - 2 * MINUTE);
    const isLate = recent.length > 0 && random.below(4) === 0;
    const second = isLate ? random.pick(recent).second : control.now();
    const clock = { now: () => new Date(second * 1000) };
    const id = await world.register({ ...state.side, deps: { ...state.side.deps, clock } }, count);
    state.registrations.push({ id, second, left: count });
    write(
      `register ${count} (registration ${state.registrations.length})${isLate ? ` at ${second - start}s` : ""}`,
    );
    pass(random.pick([0, 1, 1, 5, 20, 40]));
    return true;
  };

  const refund = async (): Promise<boolean> => {
    const refundable = state.registrations.filter(({ left }) => left > 0);
    if (refundable.length === 0) {
      return false;
    }
    const registration = random.pick(refundable);
    const count = random.below(3) === 0 ? registration.left : 1 + random.below(registration.left);
    await world.refund(state.side, registration.id, count);
    registration.left -= count;
    write(`refund ${count} of registration ${state.registrations.indexOf(registration) + 1}`);
    return true;
  };

  const isPending = async (): Promise<boolean> =>
    (await listEvents(["sealed", "sending"])).length > 0 || (await countUnsealed()) > 0;

  const sendInTrouble = async (): Promise<boolean> => {
    if (!(await isPending())) {
      return false;
    }
    pass(5);
    const fault = random.pick(FAULTS);
    write(`fault ${fault.kind}${fault.applied === true ? ", applied" : ""}`);
    control.addFault(fault);
    await send();
    control.clearFaults();
    return true;
  };

  const sendSome = async (): Promise<boolean> => {
    if (!(await isPending())) {
      return false;
    }
    pass(random.pick([5, 5, 61]));
    await send();
    return true;
  };

  const changeCustomer = async (): Promise<boolean> => {
    // A retry looks for usage in doubt at the present customer, and not at one that the organization has had meanwhile.
    if (state.isOnLedger || (state.hasRestored && (await listEvents(UNSENT)).length > 0)) {
      return false;
    }
    await setCustomer(random.pick([...customerIds, null].filter((id) => id !== state.customerId)));
    return true;
  };

  const retrySome = async (): Promise<boolean> => {
    const events = await listEvents(RETRIABLE);
    if (events.length === 0) {
      return false;
    }
    const event = random.pick(events);
    const isLater = random.below(2) === 0;
    if (isLater) {
      await passLag();
    }
    if (isLater && random.below(3) === 0) {
      return retryAsFound(event);
    }
    const { billing } = state.side.deps;
    // What is lost with the history must be corrected.
    const change = random.pick(
      state.name === "lost" ? [sendSome] : [register, refund, sendSome, changeCustomer],
    );
    const disturb = async () => {
      write("during the retry:");
      await change();
    };
    return retry(event, random.below(2) === 0 ? whileReadingSums(billing, disturb) : billing);
  };

  const waive = async (): Promise<boolean> => {
    const events = await listEvents([...FAILED_STATES, "held"]);
    if (events.length === 0) {
      return false;
    }
    return waiveEvent(random.pick(events));
  };

  const settleSome = async (): Promise<boolean> => {
    const events = await listEvents([...FAILED_STATES, "held"]);
    return events.length > 0 && settle(random.pick(events));
  };

  const listLost = async () =>
    (await listEvents(["delivered"])).filter(
      ({ identifier, customerId }) => customerId !== null && state.lost.has(identifier),
    );

  const reopenSome = async (): Promise<boolean> => {
    const events = await listLost();
    if (events.length === 0) {
      return false;
    }
    await passLag();
    return reopen(random.pick(events));
  };

  const acknowledgeSome = async (): Promise<boolean> => {
    if (state.isOnLedger || state.registrations.length === 0) {
      return false;
    }
    await passLag();
    const { db } = state.side;
    const id = crypto.randomUUID();
    const { signal } = new AbortController();
    await runReconciliation(state.side.deps, { id, isFinal: true }, signal);
    const streams = await listReconciliationStreams(db, id);
    const differences = await Promise.all(
      streams.map((stream) => listReconciliationDifferences(db, stream.id)),
    );
    const ids = differences.flat().map((difference) => difference.id);
    const difference =
      ids.length === 0 ? null : await findReconciliationDifference(db, BigInt(random.pick(ids)));
    return difference !== null && acknowledge(difference);
  };

  /** Stripe refuses what it has just accepted, or loses it without a report. */
  const refuseAccepted = async (): Promise<boolean> => {
    const delivered = new Set(
      (await listEvents(["delivered"])).map(({ identifier }) => identifier),
    );
    const recent = control
      .events()
      .filter(
        ({ identifier, rejectedWith, receivedAt }) =>
          delivered.has(identifier) &&
          rejectedWith === null &&
          receivedAt > control.now() - LAG_SECONDS + MINUTE,
      );
    if (recent.length === 0) {
      return false;
    }
    const { identifier, value } = random.pick(recent);
    control.rejectAccepted({ identifier });
    if (random.below(4) === 0) {
      state.lost.add(identifier);
      write(`Stripe loses ${identifier} (${value})`);
      return true;
    }
    state.reports.push({ identifier, refusedAt: state.side.deps.clock.now() });
    write(`Stripe refuses ${identifier} (${value})`);
    if (random.below(2) === 0) {
      await applyReports();
    }
    return true;
  };

  return {
    register,
    refund,
    sendInTrouble,
    send: sendSome,
    waive,
    settleSome,
    retrySome,
    listLost,
    reopenSome,
    acknowledgeSome,
    refuseAccepted,
    moveToStripe: async () => {
      if (!state.isOnLedger) {
        return false;
      }
      await setCustomer(random.pick(customerIds));
      await world.moveToStripe();
      state.isCustomerChangeable = false;
      return true;
    },
    /** In a lost history: the operator of the restored database can name only the present and the latest customer. */
    changeCustomerOnce: async () => {
      if (!state.isCustomerChangeable || state.isOnLedger) {
        return false;
      }
      state.isCustomerChangeable = false;
      await setCustomer(random.pick(customerIds.filter((id) => id !== state.customerId)));
      return true;
    },
    changeCustomer,
  };
};
