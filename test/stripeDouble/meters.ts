import type { Requests } from "./requests.ts";
import { ErrorResponse, findBy, invalid, pageOf } from "./responses.ts";
import type { AcceptedEvent, Meter, State } from "./state.ts";

const DAY = 86_400;
const PAST_SECONDS = 35 * DAY;
const FUTURE_SECONDS = 300;
const IDENTIFIER_SECONDS = DAY;

const findActive = ({ meters }: State, eventName: string): Meter | undefined =>
  [...meters.values()].find(
    ({ event_name: name, status }) => name === eventName && status === "active",
  );

export const createMeter = (state: State, request: Requests["meterCreate"]): Meter => {
  if (findActive(state, request.event_name)) {
    throw invalid(`An active meter already exists with event name ${request.event_name}.`);
  }
  const meter: Meter = {
    id: state.nextId("mtr"),
    created: state.clock.now(),
    status: "active",
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
  state.meters.set(meter.id, meter);
  return meter;
};

export const listMeters = ({ meters }: State, request: Requests["meterList"]): object =>
  pageOf("/v1/billing/meters", [...meters.values()].toReversed(), request);

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
  state: State,
  { event_name: name, payload }: Requests["meterEventCreate"],
): { meter: Meter; customerId: string } => {
  const meter = findActive(state, name);
  if (!meter) {
    throw invalid(`No active meter found matching event_name: ${name}`);
  }
  const key = meter.customer_mapping.event_payload_key;
  const customerId = payload[key];
  if (customerId === undefined) {
    throw invalid(`The payload lacks '${key}'.`, "meter_event_no_customer_defined");
  }
  return { meter, customerId: findBy(state.customers, "customer", customerId, 400).id };
};

export const acceptMeterEvent = (
  state: State,
  request: Requests["meterEventCreate"],
  extra: Pick<AcceptedEvent, "idempotencyKey" | "rejectedWith">,
): object => {
  const { clock, identifiers, events, nextId } = state;
  const { meter, customerId } = targetOf(state, request);
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
    const message = `An event already exists with identifier ${identifier}.`;
    throw new ErrorResponse(400, message, {}, { "stripe-should-retry": "false" });
  }
  identifiers.set(identifier, now);
  const { id: meterId, event_name: eventName } = meter;
  const accepted = { identifier, eventName, meterId, customerId, value, second, receivedAt: now };
  events.push({ ...accepted, isReported: false, ...extra });
  return { ...request, object: "billing.meter_event", created: now, identifier, timestamp: second };
};

/** Lists the sum of a span of whole minutes, over the events older than the summary delay; nothing without events. */
export const listEventSummaries = (
  state: State,
  meterId: string,
  request: Requests["meterListEventSummaries"],
): object => {
  const meter = findBy(state.meters, "meter", meterId, 404);
  if (meter.default_aggregation.formula !== "sum" || meter.event_time_window !== null) {
    throw new Error("The double sums plain events only.");
  }
  const { customer, start_time: start, end_time: end } = request;
  findBy(state.customers, "customer", customer, 400);
  if (start % 60 !== 0 || end % 60 !== 0) {
    throw invalid("start_time and end_time must align with minute boundaries.");
  }
  if (start >= end) {
    throw invalid("end_time must be after start_time.");
  }
  const visibleUntil = state.clock.now() - state.settings.summaryDelaySeconds;
  const summed = state.events.filter(
    (event) =>
      event.meterId === meterId &&
      event.customerId === customer &&
      event.rejectedWith === null &&
      event.receivedAt <= visibleUntil &&
      event.second >= start &&
      event.second < end,
  );
  const summary = {
    id: `mtrusg_test_${meterId}_${customer}_${start}_${end}`,
    object: "billing.meter_event_summary",
    aggregated_value: summed.reduce((sum, { value }) => sum + value, 0),
    start_time: start,
    end_time: end,
    meter: meterId,
  };
  const url = `/v1/billing/meters/${meterId}/event_summaries`;
  return pageOf(url, summed.length > 0 ? [summary] : [], request);
};

/** How a sample names its event. */
export type SampleForm = "identifier" | "idempotency_key";

const presentSample = (
  { identifier, idempotencyKey, rejectedWith }: AcceptedEvent,
  form: SampleForm,
): object => ({
  error_message: `The event was rejected: ${rejectedWith}.`,
  request:
    form === "idempotency_key" ? { idempotency_key: idempotencyKey ?? identifier } : { identifier },
});

/** Creates a thin event for each meter with rejected events that no report has named yet, and one for those without a meter. */
export const createErrorReports = (state: State, sampleForm: SampleForm) => {
  const rejected = state.events.filter(
    ({ rejectedWith, isReported }) => rejectedWith !== null && !isReported,
  );
  const byMeter = Map.groupBy(rejected, ({ rejectedWith, meterId }) =>
    rejectedWith === "no_meter" ? null : meterId,
  );
  return [...byMeter].map(([meterId, events]) => {
    const received = events.map(({ receivedAt }) => receivedAt);
    const byCode = Map.groupBy(events, ({ rejectedWith }) => rejectedWith);
    const report = {
      id: state.nextId("evt_test"),
      object: "v2.core.event",
      type: `v1.billing.meter.${meterId === null ? "no_meter_found" : "error_report_triggered"}`,
      created: new Date(state.clock.now() * 1000).toISOString(),
      livemode: false,
      related_object: meterId === null ? null : { id: meterId, type: "billing.meter" },
      data: {
        reason: {
          error_types: [...byCode].map(([code, some]) => ({
            code,
            sample_errors: some.map((event) => presentSample(event, sampleForm)),
          })),
        },
        validation_end: new Date((Math.max(...received) + 10) * 1000).toISOString(),
      },
    };
    state.thinEvents.set(report.id, report);
    for (const event of events) {
      event.isReported = true;
    }
    return report;
  });
};
