import type { AcceptedEvent, State, ThinEvent } from "./state.ts";

export type ReportOptions = {
  /** How many events of each error code are named; Stripe names only some. All by default. */
  samples?: number;
  /** How a sample names its event. */
  sampleForm?: "identifier" | "idempotency_key";
};

const groupBy = <Key>(
  events: readonly AcceptedEvent[],
  keyOf: (event: AcceptedEvent) => Key,
): readonly (readonly [Key, readonly AcceptedEvent[]])[] => [...Map.groupBy(events, keyOf)];

const presentSample = (
  { identifier, idempotencyKey, rejectedWith }: AcceptedEvent,
  form: ReportOptions["sampleForm"],
): object => ({
  error_message: `The event was rejected: ${rejectedWith}.`,
  request:
    form === "idempotency_key" ? { idempotency_key: idempotencyKey ?? identifier } : { identifier },
});

/** Returns the meter that a report is about; null if the event has none. */
const meterOf = ({ rejectedWith, meterId }: AcceptedEvent): string | null =>
  rejectedWith === "no_meter" ? null : meterId;

/** Creates a thin event for each meter with rejected events that no report has named or counted yet. */
export const createErrorReports = (
  state: State,
  { samples = Number.POSITIVE_INFINITY, sampleForm = "identifier" }: ReportOptions,
): readonly ThinEvent[] => {
  const rejected = state.events.filter(
    ({ rejectedWith, isReported }) => rejectedWith !== null && !isReported,
  );
  return groupBy(rejected, meterOf).map(([meterId, events]) => {
    const received = events.map(({ receivedAt }) => receivedAt);
    const report: ThinEvent = {
      id: state.nextId("evt_test"),
      object: "v2.core.event",
      type:
        meterId === null
          ? "v1.billing.meter.no_meter_found"
          : "v1.billing.meter.error_report_triggered",
      created: new Date(state.clock.now() * 1000).toISOString(),
      livemode: false,
      related_object:
        meterId === null
          ? null
          : { id: meterId, type: "billing.meter", url: `/v1/billing/meters/${meterId}` },
      data: {
        developer_message_summary: `There were ${events.length} invalid events.`,
        reason: {
          error_count: events.length,
          error_types: groupBy(events, ({ rejectedWith }) => rejectedWith).map(([code, some]) => ({
            code,
            error_count: some.length,
            sample_errors: some.slice(0, samples).map((event) => presentSample(event, sampleForm)),
          })),
        },
        validation_start: new Date(Math.min(...received) * 1000).toISOString(),
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
