import type { CommonQueryMethods } from "slonik";
import type { ListedMeterEvent } from "./meterEventReports.sql.ts";
import { listSealingsOfSecond } from "./meterEventReports.sql.ts";
import type { UsageFact } from "./usageFacts.sql.ts";
import { listFactsOfRegistration } from "./usageFacts.sql.ts";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import type { BillingStatus, FactEvent } from "./billingStatus.rules.ts";
import { billingStatusOf } from "./billingStatus.rules.ts";
import { secondOf } from "../../runtime/durations.rules.ts";

export type RegistrationUsage = {
  readonly status: BillingStatus;
  readonly facts: readonly UsageFact[];
  /** Every sealing of the registration's second, also those without its facts. */
  readonly events: readonly ListedMeterEvent[];
  /** The failed events that have facts of the registration. */
  readonly failedEventIds: readonly bigint[];
};

/** Reads how far the usage of a registration has come. */
export const readUsage = async (
  db: CommonQueryMethods,
  registration: AccountMode & {
    readonly id: string;
    readonly kind: Kind;
    readonly createdAt: Date;
    readonly isPrepaid: boolean;
    readonly count: number;
    readonly refundedCount: number;
  },
): Promise<RegistrationUsage> => {
  const facts = await listFactsOfRegistration(db, registration.id);
  const events =
    facts.length === 0
      ? []
      : await listSealingsOfSecond(db, registration, secondOf(registration.createdAt));
  const eventOf = ({ meterEventId }: UsageFact): FactEvent | null => {
    const event = events.find(({ id }) => Number(id) === meterEventId);
    return event ? { ...event, isLate: event.isLate && event.documentReference === null } : null;
  };
  return {
    status: billingStatusOf(registration, facts.map(eventOf)),
    facts,
    events,
    failedEventIds: events
      .filter(({ state }) => state === "failed")
      .map(({ id }) => id)
      .filter((id) => facts.some(({ meterEventId }) => meterEventId === Number(id))),
  };
};
