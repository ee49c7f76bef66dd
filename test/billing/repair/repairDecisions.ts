import { listFacts } from "./repairTruth.ts";
import type { Finding, Opened } from "./repairTruth.ts";
import { reopenUsage, retryUsage } from "../../../modules/billing/reconciliation/retryUsage.ts";
import type { FoundDifference } from "../../../modules/billing/reconciliation/reconciliations.sql.ts";
import { sql } from "../../../db/sql.ts";
import { minuteOf } from "../../../modules/billing/usage.rules.ts";
import { acknowledgeDrift } from "../../../modules/billing/reconciliation/acknowledgeDrift.ts";
import { settleUsage, waiveUsage } from "../../../modules/billing/reconciliation/closeUsage.ts";
import { sumRow } from "./repairWorld.ts";
import type { Event, World } from "./repairWorld.ts";

/** The service corrects a clock that differs by more from the database's. */
const SLOW_SECONDS = 5;

/** Usage in these states, or in no event, is sent later. */
const OPEN_STATES: ReadonlySet<string | null> = new Set(["sealed", "sending", "held", null]);

/** What an operator does about one meter event. Each returns whether the service has done it. */
export const createDecisions = ({
  random,
  state,
  truth,
  control,
  write,
  labelOf,
  attempt,
  describe,
}: World) => {
  const retry = async (
    event: Event,
    billing: Opened["deps"]["billing"] = state.side.deps.billing,
  ): Promise<boolean> =>
    attempt(`retry ${describe(event)}`, () =>
      retryUsage({ ...state.side.deps, billing }, event.id),
    );

  /**
   * Finds out who has an event, and whether the sums have led to the conclusion that other usage of the minute is at the
   * processor, or is not, by units of this event.
   */
  const findOut = async (event: Event): Promise<{ found: Finding | null; isConfused: boolean }> => {
    const facts = await listFacts(state.side);
    const found = truth.find(facts.filter(({ identifier }) => identifier === event.identifier));
    const identifiers = new Set(facts.map(({ identifier }) => identifier));
    const isConfused = [...identifiers].some((identifier) => {
      const own = facts.filter((fact) => fact.identifier === identifier);
      const [first] = own;
      const other = truth.find(own);
      if (own.some(({ reported }) => reported !== 0)) {
        // The sums have led to the conclusion that the processor has a part of it.
        return true;
      }
      return first?.state === "delivered"
        ? other?.assumed !== "delivered" || other.customerId !== first.customerId
        : OPEN_STATES.has(first?.state ?? null) && other?.assumed !== "absent";
    });
    return { found, isConfused };
  };

  /** Retries an event with what the operator has found out about it. */
  const retryAsFound = async (event: Event, isStuck = false): Promise<boolean> => {
    const { found, isConfused } = await findOut(event);
    state.isExact &&= !isConfused || !isStuck || found === null;
    if (found === null || (isConfused && !isStuck)) {
      write(
        `${describe(event)} ${isConfused ? "is confused with other usage" : "is at the processor in part"}`,
      );
      return false;
    }
    return attempt(
      `retry ${describe(event)} --assume ${found.assumed} ${labelOf(found.customerId)}`,
      () => retryUsage(state.side.deps, event.id, found),
    );
  };

  const sumAcknowledged = () =>
    state.side.db.oneFirst(sql.type(sumRow)`
      SELECT coalesce(sum(units), 0)::bigint AS units FROM acknowledged_drift
    `);

  const reopen = async (event: Event): Promise<boolean> =>
    attempt(`reopen ${describe(event)}`, () =>
      reopenUsage(state.side.deps, event.id, { reason: "test", isDryRun: false }),
    );

  const waiveEvent = (event: Event): Promise<boolean> => {
    const isSlow = random.below(2) === 0;
    const clock = { now: () => new Date((control.now() - (isSlow ? SLOW_SECONDS : 0)) * 1000) };
    return attempt(`waive ${describe(event)}${isSlow ? " by a slow clock" : ""}`, () =>
      waiveUsage({ ...state.side.deps, clock }, event.id, "test"),
    );
  };

  /** Bills what Stripe lacks of a minute by hand, credits what it has too many, and acknowledges the difference. */
  const acknowledge = async (difference: FoundDifference): Promise<boolean> => {
    const { minute, customerId } = difference;
    const delivered = Map.groupBy(
      (await listFacts(state.side)).filter(
        (fact) =>
          fact.state === "delivered" &&
          fact.customerId === customerId &&
          minuteOf(fact.second).start === minute,
      ),
      ({ identifier }) => identifier,
    );
    const events = [...delivered].map(([identifier, facts]) => ({
      identifier,
      facts,
      found: truth.find(facts),
    }));
    if (
      events.some(({ found }) => found === null || (found.customerId ?? customerId) !== customerId)
    ) {
      return false;
    }
    return attempt(`acknowledge ${labelOf(customerId)} at ${minute}`, async () => {
      const before = await sumAcknowledged();
      await acknowledgeDrift(state.side.deps, BigInt(difference.id), {
        reason: "test",
        operator: "maria",
      });
      const units = (await sumAcknowledged()) - before;
      state.settledUnits -= units;
      for (const { identifier, facts, found } of events) {
        if (found?.assumed === "absent") {
          truth.billByHand(facts);
          state.lost.delete(identifier ?? "");
        }
      }
      return units;
    });
  };

  /** Bills or credits by hand what is not at the processor. */
  const settle = async (event: Event, isStuck = false): Promise<boolean> => {
    const { found, isConfused } = await findOut(event);
    return (
      found?.assumed === "absent" &&
      (isStuck || !isConfused) &&
      attempt(`settle ${describe(event)}`, async () => {
        const kind = event.quantity > 0 ? "invoice_item" : "credit_note";
        const document = { kind, reference: `document ${event.id} of ${state.name}` } as const;
        const options = { reason: "test", expectedUnits: event.quantity };
        await settleUsage(state.side.deps, event.id, document, options);
        state.settledUnits += event.quantity;
      })
    );
  };

  return { retry, retryAsFound, reopen, waiveEvent, settle, acknowledge };
};

export type Decisions = ReturnType<typeof createDecisions>;
