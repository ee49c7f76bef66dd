import type { ExecutionContext } from "ava";
import type {
  BillingDocument,
  StoredMeterEvent,
} from "../../../modules/billing/meterEvents.rules.ts";
import { closeUsage, retryUsage } from "../../../modules/billing/reconciliation/repairUsage.ts";
import type { OperatorAnswer } from "../../../modules/billing/reconciliation/repairUsage.rules.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { resumeUsage } from "../../../modules/billing/holdUsage.ts";
import type { ResumedUsage } from "../../../modules/billing/holdUsage.ts";
import { REFUSED } from "../../stripeDouble/faults.ts";
import type { Fault } from "../../stripeDouble/faults.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createSavedDatabase } from "../../support/savedDatabase.ts";
import type { DatabaseContent, SavedDatabase } from "../../support/savedDatabase.ts";
import { createWorld, LAG_SECONDS, NOON } from "../convergence/world.ts";
import type { Registration, World } from "../convergence/world.ts";

/** Stripe has forgotten the identifiers and keys of what it accepted before. */
export const FORGOTTEN_SECONDS = 3 * 24 * 60 * 60;

export const INVOICE_ITEM: BillingDocument = { kind: "invoice_item", reference: "ii_1" };
export const CREDIT_NOTE: BillingDocument = { kind: "credit_note", reference: "cn_1" };

/** What an operator and a worker do in a world. */
const createOperator = (t: ExecutionContext, world: World) => {
  const send = async (): Promise<void> => {
    world.pass(5);
    await world.send();
    // An event that Stripe is asked about ends the first round of its stream.
    await world.send();
  };
  /** Compares with Stripe once its sums show everything, and returns the open differences. */
  const reconcile = async (): Promise<readonly StoredMeterEvent[]> => {
    world.pass(LAG_SECONDS);
    const { signal } = new AbortController();
    await reconcileUsage(world.deps(), { span: world.comparedSpan() }, signal);
    return world.listDifferences();
  };
  const findDifference = async (): Promise<StoredMeterEvent> => {
    const [difference] = await reconcile();
    if (!difference) {
      throw new Error("No difference was found.");
    }
    return difference;
  };
  /** Registers usage that Stripe refuses, and returns its event. */
  const fail = async (
    count: number,
    { place = 0, faults = [REFUSED] }: { place?: number; faults?: readonly Fault[] } = {},
  ): Promise<StoredMeterEvent> => {
    await world.register(world.accountIds[place] ?? "", count);
    faults.forEach(world.control.addFault);
    for (const _ of faults) {
      await send();
    }
    const event = (await world.listEvents(["failed"])).at(-1);
    if (!event) {
      throw new Error("No usage has failed.");
    }
    return event;
  };
  /** Another program reports trees of a customer. */
  const reportElsewhere = (second: number, units: number, place = 0): boolean =>
    world.sendElsewhere({ kind: "tree", second, units }, world.customerIds[place] ?? "");
  const retry = (id: bigint, answer: OperatorAnswer | null = null, isDryRun = false) =>
    retryUsage(world.deps(), id, { answer, isDryRun });
  return {
    ...world,
    world,
    send,
    sendNew: async (count: number, place = 0): Promise<Registration> => {
      const registration = await world.register(world.accountIds[place] ?? "", count);
      await send();
      return registration;
    },
    fail,
    /** Registers usage of which it is unknown whether Stripe has it, because an attempt got no response and the next one was refused. */
    failUnknown: (count: number, isApplied: boolean): Promise<StoredMeterEvent> =>
      fail(count, { faults: [{ kind: "drop", applied: isApplied }, REFUSED] }),
    find: async (id: bigint): Promise<StoredMeterEvent | undefined> =>
      (await world.listEvents()).find((event) => event.id === id),
    states: async (): Promise<readonly string[]> =>
      (await world.listEvents()).map(({ state, failure }) => failure ?? state),
    retry,
    refusesRetry: (id: bigint | undefined, message: RegExp, answer?: OperatorAnswer) =>
      t.throwsAsync(retry(id ?? 0n, answer), { message }),
    close: (
      events: readonly StoredMeterEvent[],
      { document = null, ...options }: Partial<Parameters<typeof closeUsage>[2]> = {},
    ) => {
      const ids = events.map(({ id }) => id);
      return closeUsage(world.deps(), ids, { document, ...options });
    },
    /** Counts a document with which an operator has billed or returned events. */
    billBy: (events: readonly StoredMeterEvent[]): void =>
      events.forEach(({ quantity, ...event }) => world.bill({ ...event, units: quantity })),
    reconcile,
    findDifference,
    /** Delivers 5 units, which Stripe loses, and returns the identifier of their event. */
    loseDelivered: async (): Promise<string> => {
      await world.register(world.accountIds[0] ?? "", 5);
      await send();
      const identifier = (await world.listEvents(["delivered"]))[0]?.identifier ?? "";
      world.control.rejectAccepted({ identifier });
      return identifier;
    },
    reportElsewhere,
    /** Delivers 5 units, beside which another program reports some of the same minute, and returns the difference. */
    addSurplus: async (units = 3): Promise<StoredMeterEvent> => {
      const { second } = await world.register(world.accountIds[0] ?? "", 5);
      await send();
      reportElsewhere(second, units);
      return findDifference();
    },
    resume: (options?: Parameters<typeof resumeUsage>[1]): Promise<ResumedUsage> =>
      resumeUsage(world.deps(), options),
    /** Lets the senders work until the sums have decided everything. */
    settle: async (): Promise<void> => {
      for (let round = 0; round < 3; round += 1) {
        world.pass(LAG_SECONDS);
        await send();
      }
    },
    /** Stripe refuses an event that it had accepted, and reports that. */
    refuse: async (identifier: string): Promise<void> => {
      world.control.rejectAccepted({ identifier });
      world.report(identifier);
      await world.applyReports();
    },
    /** Stripe's units by minute after noon. */
    billed: (): Record<number, number> => {
      const sums = new Map<number, number>();
      for (const { second, value } of world.control.usage({})) {
        const minute = Math.floor((second - NOON) / 60);
        sums.set(minute, (sums.get(minute) ?? 0) + value);
      }
      return Object.fromEntries([...sums].filter(([, units]) => units !== 0));
    },
    /** Stripe's units of one customer. */
    billedTo: (place: number): number =>
      world.control.units({ customerId: world.customerIds[place] ?? "" }),
    sends: world.control.sends,
  };
};

export type Operator = ReturnType<typeof createOperator>;

type RepairTest = (t: ExecutionContext<DatabaseContext>, operator: Operator) => Promise<void>;

/**
 * Runs tests of repairs one after the other, each in a new deployment. In the end each minute must be billed once.
 * @param options.hasDocuments whether documents bill units that the tests do not count
 */
export const testRepairs = ({ hasDocuments = false } = {}) => {
  const test = testWithDatabase();
  let database: SavedDatabase;
  let empty: DatabaseContent;
  test.serial.before(async (t) => {
    database = createSavedDatabase(t.context);
    empty = await database.save();
  });
  return (title: string, work: RepairTest, options?: Parameters<typeof createWorld>[2]): void => {
    test.serial(title, async (t) => {
      await database.restore(empty);
      const operator = createOperator(t, await createWorld(t, database, options));
      await work(t, operator);
      t.deepEqual(hasDocuments ? {} : await operator.compareWithTruth(), {}, "billed and recorded");
      t.deepEqual(await operator.compareWithStripe(), {}, "ours and theirs");
      t.deepEqual(operator.control.problems(), []);
    });
  };
};
