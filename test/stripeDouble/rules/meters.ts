import type { Stripe } from "stripe";
import { pageOf } from "./pages.ts";
import { invalid, missing, ErrorResponse } from "../errorResponse.ts";
import type { RequestTypes } from "../requests/requestTypes.ts";
import type { AcceptedEvent, Meter, State } from "./state.ts";

const DAY = 86_400;
const PAST_SECONDS = 35 * DAY;
const FUTURE_SECONDS = 300;
const IDENTIFIER_SECONDS = DAY;

export const createMeter = (
  { meters, nextId, clock }: State,
  request: RequestTypes["meterCreate"],
): Meter => {
  const taken = [...meters.values()].find(
    ({ event_name: name, status }) => name === request.event_name && status === "active",
  );
  if (taken) {
    throw invalid(`An active meter already exists with event name ${request.event_name}.`);
  }
  const meter: Meter = {
    id: nextId("mtr"),
    object: "billing.meter",
    created: clock.now(),
    updated: clock.now(),
    livemode: false,
    status: "active",
    status_transitions: { deactivated_at: null },
    display_name: request.display_name,
    event_name: request.event_name,
    event_time_window: request.event_time_window ?? null,
    default_aggregation: request.default_aggregation,
    customer_mapping: request.customer_mapping ?? {
      type: "by_id",
      event_payload_key: "stripe_customer_id",
    },
    value_settings: request.value_settings ?? { event_payload_key: "value" },
  };
  meters.set(meter.id, meter);
  return meter;
};

export const getMeter = ({ meters }: State, id: string): Meter => {
  const meter = meters.get(id);
  if (!meter) {
    throw missing("meter", id, 404);
  }
  return meter;
};

export const setMeterStatus = (state: State, id: string, status: "active" | "inactive"): Meter => {
  const meter = getMeter(state, id);
  const now = state.clock.now();
  meter.status = status;
  meter.updated = now;
  meter.status_transitions = { deactivated_at: status === "active" ? null : now };
  return meter;
};

export const listMeters = ({ meters }: State, request: RequestTypes["meterList"]): object => {
  const found = [...meters.values()].filter(
    ({ status }) => request.status === undefined || status === request.status,
  );
  return pageOf("/v1/billing/meters", found.toReversed(), request);
};

/** Parses the value of a payload: at most 15 significant digits. */
const valueOf = (text: string): number => {
  if (!/^-?\d+(?:\.\d+)?$/u.test(text)) {
    throw invalid(`The value '${text}' is not a number.`, "meter_event_invalid_value");
  }
  if (text.replaceAll(/^[-0.]+|\./gu, "").length > 15) {
    throw invalid(
      `The value '${text}' has more than 15 significant digits.`,
      "meter_event_value_too_many_digits",
    );
  }
  return Number(text);
};

/**
 * Returns the meter and customer of a meter event.
 * @throws ErrorResponse if either is unknown
 */
export const targetOf = (
  { meters, customers }: State,
  { event_name: name, payload }: RequestTypes["meterEventCreate"],
): { meter: Meter; customerId: string } => {
  const meter = [...meters.values()].find(
    (candidate) => candidate.event_name === name && candidate.status === "active",
  );
  if (!meter) {
    throw invalid(`No active meter found matching event_name: ${name}`);
  }
  const key = meter.customer_mapping.event_payload_key;
  const customerId = payload[key];
  if (customerId === undefined) {
    throw invalid(`The payload lacks '${key}'.`, "meter_event_no_customer_defined");
  }
  if (!customers.has(customerId)) {
    throw missing("customer", customerId, 400);
  }
  return { meter, customerId };
};

export const acceptMeterEvent = (
  state: State,
  request: RequestTypes["meterEventCreate"],
  { meter, customerId }: { meter: Meter; customerId: string },
  extra: Pick<AcceptedEvent, "idempotencyKey" | "rejectedWith">,
): Stripe.Billing.MeterEvent => {
  const { clock, identifiers, events, nextId } = state;
  const now = clock.now();
  const valueKey = meter.value_settings.event_payload_key;
  const text = request.payload[valueKey];
  if (text === undefined) {
    throw invalid(`The payload lacks '${valueKey}'.`, "meter_event_value_not_found");
  }
  const value = valueOf(text);
  const { timestamp: second = now, identifier = nextId("evt") } = request;
  if (second < now - PAST_SECONDS) {
    throw invalid(
      "The timestamp is more than 35 calendar days in the past.",
      "timestamp_too_far_in_past",
    );
  }
  if (second > now + FUTURE_SECONDS) {
    throw invalid("The timestamp is more than 5 minutes in the future.", "timestamp_in_future");
  }
  const usedAt = identifiers.get(identifier);
  if (usedAt !== undefined && now - usedAt < IDENTIFIER_SECONDS) {
    // As at Stripe, there is no code: only the message identifies a duplicate.
    throw new ErrorResponse(
      400,
      `An event already exists with identifier ${identifier}.`,
      {},
      { "stripe-should-retry": "false" },
    );
  }
  identifiers.set(identifier, now);
  events.push({
    identifier,
    eventName: meter.event_name,
    meterId: meter.id,
    customerId,
    value,
    second,
    receivedAt: now,
    isReported: false,
    ...extra,
  });
  return {
    object: "billing.meter_event",
    created: now,
    event_name: meter.event_name,
    identifier,
    livemode: false,
    payload: request.payload,
    timestamp: second,
  };
};

const WINDOW_SECONDS: Record<string, number> = { hour: 3600, day: DAY };

/** Lists sums of the events older than the summary delay; windows without events are left out. */
export const listEventSummaries = (
  state: State,
  meterId: string,
  request: RequestTypes["meterListEventSummaries"],
): object => {
  const meter = getMeter(state, meterId);
  if (meter.default_aggregation.formula !== "sum" || meter.event_time_window !== null) {
    throw new Error("The double sums plain events only.");
  }
  const { customer, start_time: start, end_time: end, value_grouping_window: window } = request;
  if (!state.customers.has(customer)) {
    throw missing("customer", customer, 400);
  }
  const aligned = WINDOW_SECONDS[window ?? ""] ?? 60;
  if (start % aligned !== 0 || end % aligned !== 0) {
    throw invalid(`start_time and end_time must align with ${window ?? "minute"} boundaries.`);
  }
  if (start >= end) {
    throw invalid("end_time must be after start_time.");
  }
  const length = window === undefined ? end - start : aligned;
  const visibleUntil = state.clock.now() - state.settings.summaryDelaySeconds;
  const sums = new Map<number, number>();
  for (const event of state.events) {
    if (
      event.meterId === meterId &&
      event.customerId === customer &&
      event.rejectedWith === null &&
      event.receivedAt <= visibleUntil &&
      event.second >= start &&
      event.second < end
    ) {
      const from = event.second - ((event.second - start) % length);
      sums.set(from, (sums.get(from) ?? 0) + event.value);
    }
  }
  const summaries = [...sums]
    .toSorted(([a], [b]) => b - a)
    .map(([from, sum]): Stripe.Billing.MeterEventSummary => ({
      id: `mtrusg_test_${meterId}_${customer}_${from}_${from + length}`,
      object: "billing.meter_event_summary",
      aggregated_value: sum,
      start_time: from,
      end_time: from + length,
      livemode: false,
      meter: meterId,
    }));
  return pageOf(`/v1/billing/meters/${meterId}/event_summaries`, summaries, request);
};
