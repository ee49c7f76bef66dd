import { documentFor } from "../../../modules/billing/meterEvents.rules.ts";
import type { StoredMeterEvent } from "../../../modules/billing/meterEvents.rules.ts";
import { closeUsage, retryUsage } from "../../../modules/billing/reconciliation/repairUsage.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import type { Random } from "../../support/random.ts";
import type { Span } from "../../../modules/billing/usage.rules.ts";
import type { World } from "./world.ts";

/** Rounds after which an operator answers for the processor, closes what is left, and gives up. */
const ANSWERED_ROUNDS = 6;
const CLOSED_ROUNDS = 12;
const MAXIMUM_ROUNDS = 40;

/** What an operator does. Each returns whether it was possible. */
export const createRepairs = (
  world: World,
  random: Random,
  asOperator: <Result>(work: () => Promise<Result>) => Promise<Result>,
) => {
  const { attempt, bill, describe, listDifferences, listEvents, passLag, send } = world;

  const pickFreeCustomer = async (): Promise<string> => {
    const taken = await Promise.all(world.accountIds.map(world.customerOf));
    return random.pick(world.customerIds.filter((id) => !taken.includes(id)));
  };

  const retryEvent = (event: StoredMeterEvent): Promise<boolean> =>
    attempt(`retry ${describe(event)}`, () => asOperator(() => retryUsage(world.deps(), event.id)));

  const retrySome = async (): Promise<boolean> => {
    const events = await listEvents(["failed"]);
    return events.length > 0 && retryEvent(random.pick(events));
  };

  const retryAll = async (): Promise<boolean> => {
    const retried = await asOperator(() => world.retryAll());
    const lines = retried.map(({ name, retry }) => `${name} ${String(retry)}`);
    world.write(`retry all: ${lines.join(", ")}`);
    return retried.length > 0;
  };

  /** Closes usage with one document for all of it, or because it is never billed. */
  const close = (events: readonly StoredMeterEvent[], isDocumented: boolean): Promise<boolean> => {
    const names = events.map(describe).join(", ");
    const units = events.reduce((sum, { quantity }) => sum + quantity, 0);
    return attempt(`close ${names}${isDocumented ? " by document" : ""}`, async () => {
      const document = { kind: documentFor(units), reference: `document ${crypto.randomUUID()}` };
      const ids = events.map(({ id }) => id);
      await asOperator(() =>
        closeUsage(world.deps(), ids, {
          document: isDocumented ? document : null,
          expectedUnits: units,
        }),
      );
      if (isDocumented) {
        events.forEach(({ quantity, ...event }) => bill({ ...event, units: quantity }));
      }
    });
  };

  const closeSome = async (): Promise<boolean> => {
    const events = await listEvents(["failed"]);
    return events.length > 0 && close([random.pick(events)], random.below(2) === 0);
  };

  const closeMany = async (): Promise<boolean> => {
    const events = await listEvents(["failed"]);
    const open = await listDifferences();
    const some = events.filter(() => random.below(3) > 0);
    const isDocumented = random.below(2) === 0;
    const [first] = some;
    /** A document is of one customer and meter. */
    const fits = ({ accountId, kind }: Pick<StoredMeterEvent, "accountId" | "kind">): boolean =>
      !isDocumented || (accountId === first?.accountId && kind === first.kind);
    return some.length > 1 && close([...some, ...open].filter(fits), isDocumented);
  };

  const reconcile = async (): Promise<readonly StoredMeterEvent[]> => {
    await passLag();
    const deps = world.deps();
    const { signal } = new AbortController();
    const compare = (span: Span) => asOperator(() => reconcileUsage(deps, { span }, signal));
    await compare(world.comparedSpan());
    if ((await listDifferences()).length === 0) {
      // What adds up to zero is found only if its minute is compared alone.
      for (const minute of await world.listHiddenMinutes()) {
        await compare(minute);
      }
    }
    return listDifferences();
  };

  const decide = (difference: StoredMeterEvent, accepts: boolean): Promise<boolean> =>
    accepts ? close([difference], false) : retryEvent(difference);

  const decideSome = async (): Promise<boolean> => {
    const differences = await reconcile();
    return differences.length > 0 && decide(random.pick(differences), random.below(2) === 0);
  };

  /** An operator answers for what stays unclear, rightly or wrongly: the next comparison shows a wrong answer. */
  const answer = (event: StoredMeterEvent): Promise<boolean> => {
    const isDelivered = random.below(2) === 0;
    return attempt(`retry ${describe(event)} --${isDelivered ? "delivered" : "absent"}`, () =>
      retryUsage(world.deps(), event.id, { answer: isDelivered ? "delivered" : "absent" }),
    );
  };

  const settle = async (event: StoredMeterEvent, round: number): Promise<void> => {
    if ((await world.customerOf(event.accountId)) === null) {
      await world.setCustomer(event.accountId, await pickFreeCustomer());
    }
    if (round <= ANSWERED_ROUNDS && (await retryEvent(event))) {
      return;
    }
    // A retry would ask again.
    await (event.failure === "unclear" && round <= CLOSED_ROUNDS
      ? answer(event)
      : close([event], true));
  };

  return {
    pickFreeCustomer,
    retrySome,
    retryAll,
    closeSome,
    closeMany,
    decideSome,
    finish: async (): Promise<void> => {
      for (let round = 0; ; round += 1) {
        await passLag();
        await send();
        // It would ask about unclear usage again, for which an operator has to answer.
        if (round <= ANSWERED_ROUNDS) {
          await retryAll();
        }
        for (const event of await listEvents(["failed"])) {
          await settle(event, round);
        }
        await send();
        const differences = await reconcile();
        for (const difference of differences) {
          await decide(difference, random.below(4) === 0);
        }
        const open = await listEvents(["pending", "failed"]);
        if (differences.length === 0 && open.length === 0 && !(await world.hasPending())) {
          return;
        }
        if (round > MAXIMUM_ROUNDS) {
          const left = [...open.map(describe), ...differences.map(describe)];
          throw new Error(`Still open: ${left.join(", ")}`);
        }
      }
    },
  };
};
