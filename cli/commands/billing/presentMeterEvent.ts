import type { ListedMeterEvent } from "../../../db/billing/meterEventReports.ts";
import { timeOf } from "../../../domain/billing/usage.ts";
import type { Cell } from "../../output/formatTable.ts";

/** Returns a meter event as `--json` prints it. */
export const presentMeterEvent = (event: ListedMeterEvent) => ({
  meter_event_id: Number(event.id),
  state: event.state,
  account_id: event.accountId,
  account_name: event.accountName,
  mode: event.mode,
  meter: event.kind,
  at: timeOf(event.second),
  quantity: event.quantity,
  already_reported: event.alreadyReported,
  identifier: event.identifier,
  processor: event.processor,
  customer_id: event.customerId,
  attempts: event.attempts,
  first_attempt_at: event.firstAttemptAt,
  next_attempt_at: event.retryAt,
  outcome_unknown: event.outcomeUnknown,
  in_doubt_since: event.inDoubtSince,
  last_error: event.lastError,
  sealed_at: event.sealedAt,
  settled_at: event.settledAt,
  settlement: event.settlementKind,
  settlement_reference: event.settlementReference,
});

export const METER_EVENT_HEADINGS = [
  "event",
  "state",
  "organization",
  "mode",
  "meter",
  "at",
  "quantity",
  "attempts",
  "last error",
];

export const meterEventRow = (event: ListedMeterEvent): readonly Cell[] => [
  String(event.id),
  event.state,
  event.accountName,
  event.mode,
  event.kind,
  timeOf(event.second),
  event.quantity,
  event.attempts,
  event.lastError,
];
