import { holdUsage, resumeUsage } from "../../../modules/billing/holdUsage.ts";
import { PASSING_FAULTS, REFUSED } from "../../stripeDouble/faults.ts";
import type { Fault } from "../../stripeDouble/faults.ts";
import type { Random } from "../../support/random.ts";
import { createRepairs } from "./repairs.ts";
import { LAG_SECONDS, MINUTE } from "./world.ts";
import type { CustomerChange, World } from "./world.ts";

const FAULTS: readonly Fault[] = [REFUSED, REFUSED, ...PASSING_FAULTS];
const FORGOTTEN_AFTER_SECONDS = 3 * 24 * 60 * MINUTE;

/** How far the clocks of workers and of operators' machines are ahead of the database's. */
const WORKER_CLOCKS = [0, 0, 0, 0, 0, 0, 3 * MINUTE, -3 * MINUTE];
const OPERATOR_CLOCKS = [0, 0, 0, 0, 20 * MINUTE, -60 * MINUTE];

/** What can happen to a deployment. Each returns whether it was possible. */
export const createOperations = (world: World, random: Random) => {
  const { control, accountIds, attempt, write, pass } = world;
  const asOperator = <Result>(work: () => Promise<Result>): Promise<Result> =>
    world.onClock(random.pick(OPERATOR_CLOCKS), work);
  const repairs = createRepairs(world, random, asOperator);
  let isHeld = false;

  const register = async (): Promise<boolean> => {
    // A transaction that took long is of a second that may have been sealed since. Another API's clock may be ahead.
    const recent = world
      .registrations()
      .filter(({ second }) => Math.abs(second - control.now()) < 2 * MINUTE);
    const clock = control.now() + random.pick([0, 0, 0, 0, 0, 90, 280]);
    const second = recent.length > 0 && random.below(4) === 0 ? random.pick(recent).second : clock;
    const kind = random.below(4) === 0 ? "bottle" : "tree";
    await world.register(random.pick(accountIds), 1 + random.below(12), { kind, second });
    pass(random.pick([0, 1, 1, 5, 20, 40]));
    return true;
  };

  const refund = async (): Promise<boolean> => {
    const refundable = world.registrations().filter(({ left }) => left > 0);
    if (refundable.length === 0) {
      return false;
    }
    const registration = random.pick(refundable);
    const count = random.below(3) === 0 ? registration.left : 1 + random.below(registration.left);
    await world.refund(registration, count);
    return true;
  };

  const send = async (): Promise<boolean> => {
    pass(random.pick([5, 5, 61]));
    await world.onClock(random.pick(WORKER_CLOCKS), world.send);
    return true;
  };

  const sendInTrouble = async (): Promise<boolean> => {
    const fault = { ...random.pick(FAULTS), times: 1 + random.below(2) };
    write(`fault ${fault.kind}${fault.applied === true ? ", applied" : ""}`);
    control.addFault(fault);
    await send();
    control.clearFaults();
    return true;
  };

  const killSender = async (): Promise<boolean> => {
    pass(random.pick([5, 61]));
    await world.beginAttempts();
    return true;
  };

  /** Stripe refuses what it has accepted, and reports it later or never: also usage that is asked about. */
  const refuseAccepted = async (): Promise<boolean> => {
    const known = new Set(
      (await world.listEvents(["pending", "delivered", "failed"])).map(
        ({ identifier }) => identifier,
      ),
    );
    const recent = control
      .events()
      .filter(
        ({ identifier, rejectedWith, receivedAt }) =>
          known.has(identifier) &&
          rejectedWith === null &&
          receivedAt > control.now() - LAG_SECONDS + MINUTE,
      );
    if (recent.length === 0) {
      return false;
    }
    const { identifier, value } = random.pick(recent);
    control.rejectAccepted({ identifier });
    const isReported = random.below(4) > 0;
    write(`Stripe ${isReported ? "refuses" : "loses"} ${identifier} (${value})`);
    if (isReported) {
      world.report(identifier);
    }
    if (random.below(2) === 0) {
      await world.applyReports();
    }
    return true;
  };

  /** Another history, or another program, has used an identifier of ours for other units. */
  const useIdentifier = async (): Promise<boolean> => {
    const recent = world.registrations().filter(({ second }) => second > control.now() - MINUTE);
    if (recent.length === 0) {
      return false;
    }
    const { accountId, kind, second } = random.pick(recent);
    const customerId = await world.customerOf(random.pick([accountId, accountId, ...accountIds]));
    if (customerId === null) {
      return false;
    }
    const stem = `u1:${accountId}:live:${kind}:${second}:`;
    const usage = { kind, second, units: 1 + random.below(12) };
    return world.sendElsewhere(usage, customerId, `${stem}${random.pick([1, 1, 2])}`);
  };

  const changeCustomer = async (): Promise<boolean> => {
    const customerId = random.below(5) === 0 ? null : await repairs.pickFreeCustomer();
    await world.setCustomer(random.pick(accountIds), customerId);
    return true;
  };

  const swapCustomers = async (): Promise<boolean> => {
    const [first, second] = [random.pick(accountIds), random.pick(accountIds)];
    const [ours, theirs] = [await world.customerOf(first), await world.customerOf(second)];
    if (ours === theirs || ours === null || theirs === null) {
      return false;
    }
    await world.setCustomer(first, null);
    await world.setCustomer(second, ours);
    await world.setCustomer(first, theirs);
    return true;
  };

  const resume = (wasNothingLost = false): Promise<boolean> =>
    attempt(`resume${wasNothingLost ? " --nothing-was-lost" : ""}`, async () => {
      const { deps } = world;
      await asOperator(() =>
        resumeUsage(deps(), { history: wasNothingLost ? "nothing_lost" : null }),
      );
      isHeld = false;
    });

  const holdOrResume = async (): Promise<boolean> => {
    if (isHeld) {
      return resume();
    }
    isHeld = true;
    return attempt("hold", () =>
      asOperator(() => holdUsage(world.deps(), { reason: "maintenance", by: "maria" })),
    );
  };

  const leaveLedger = async (): Promise<boolean> => {
    if (!world.isOnLedger()) {
      return false;
    }
    for (const accountId of accountIds.filter(() => random.below(3) > 0)) {
      await world.setCustomer(accountId, await repairs.pickFreeCustomer());
    }
    await world.leaveLedger();
    return true;
  };

  /** Neither changes what is billed through it. */
  const changeSubscription = (): Promise<boolean> => {
    const subscriptionId = random.pick(world.subscriptionIds);
    const status = random.pick(["active", "paused", "canceled", "past_due"] as const);
    control.changeSubscription({ subscriptionId, status });
    write(`a subscription is ${status}`);
    return Promise.resolve(true);
  };

  const onStripe = (work: () => Promise<boolean>) => (): Promise<boolean> =>
    world.isOnLedger() ? Promise.resolve(false) : work();

  const operations = {
    register,
    refund,
    send,
    sendInTrouble,
    killSender,
    refuseAccepted,
    useIdentifier: onStripe(useIdentifier),
    changeCustomer: onStripe(changeCustomer),
    swapCustomers: onStripe(swapCustomers),
    changeSubscription,
    holdOrResume,
    leaveLedger,
    retrySome: repairs.retrySome,
    retryAll: repairs.retryAll,
    closeSome: repairs.closeSome,
    closeMany: repairs.closeMany,
    decideSome: onStripe(repairs.decideSome),
  };
  type Name = keyof typeof operations;

  const run = async (names: readonly Name[], count: number): Promise<void> => {
    for (let step = 0; step < count;) {
      step += (await operations[random.pick(names)]()) ? 1 : 0.1;
    }
  };

  return {
    run,
    /**
     * Restores a database from before a time in which `names` happened, or promotes a standby that lacks the last of them. The
     * operator repeats what the organizations have had, and the change to Stripe.
     */
    restore: async (names: readonly Name[]): Promise<void> => {
      let customers: readonly CustomerChange[] = [];
      const wasHeld = isHeld;
      const isPromotion = random.below(3) === 0;
      const lost = isPromotion ? random.below(3) : 1 + random.below(8);
      await world.restore(async () => {
        await run(names, lost);
        customers = [...world.customerChanges];
        if (!isPromotion) {
          pass(random.pick([MINUTE, FORGOTTEN_AFTER_SECONDS]));
        }
      });
      isHeld = wasHeld;
      const isOnLedgerAgain = customers.length > 0 && world.isOnLedger();
      for (const [accountId, customerId] of customers) {
        await world.setCustomer(accountId, customerId);
      }
      if (isOnLedgerAgain) {
        await world.leaveLedger();
      }
      await resume(lost === 0 && random.below(2) === 0);
    },
    finish: async (): Promise<void> => {
      if (isHeld) {
        await resume();
      }
      await leaveLedger();
      await repairs.finish();
    },
  };
};

export type Operation = Parameters<ReturnType<typeof createOperations>["run"]>[0][number];
