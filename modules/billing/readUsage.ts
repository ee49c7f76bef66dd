import type { CommonQueryMethods } from "slonik";
import type { ListedMeterEvent } from "./meterEventReports.sql.ts";
import { listSealingsOfSecond } from "./meterEventReports.sql.ts";
import type { UsageFact } from "./usageFacts.sql.ts";
import { listFactsOfRegistration } from "./usageFacts.sql.ts";
import type { Owner } from "../records/owner.rules.ts";
import type { UsageReportState } from "./billingStatus.rules.ts";
import { usageStateOf } from "./billingStatus.rules.ts";
import { secondOf } from "../../runtime/durations.rules.ts";

export type RegistrationUsage = {
  readonly state: UsageReportState;
  readonly facts: readonly UsageFact[];
  /** Every sealing of the registration's second, also those without its facts. */
  readonly events: readonly ListedMeterEvent[];
  /** The failed events that have facts of the registration. */
  readonly failedEventIds: readonly bigint[];
};

/** Reads how far the usage of a registration has come. */
export const readUsage = async (
  db: CommonQueryMethods,
  registration: Owner & {
    readonly id: string;
    readonly createdAt: Date;
    readonly refundedCount: number;
  },
): Promise<RegistrationUsage> => {
  const facts = await listFactsOfRegistration(db, registration.id);
  const events =
    facts.length === 0
      ? []
      : await listSealingsOfSecond(db, registration, secondOf(registration.createdAt));
  const own = new Set(facts.map(({ meterEventId }) => meterEventId));
  const states = facts.map(
    ({ meterEventId }) => events.find(({ id }) => Number(id) === meterEventId)?.state ?? "unsealed",
  );
  return {
    state: usageStateOf(registration, states),
    facts,
    events,
    failedEventIds: events
      .filter(({ id, state }) => state === "failed" && own.has(Number(id)))
      .map(({ id }) => id),
  };
};
