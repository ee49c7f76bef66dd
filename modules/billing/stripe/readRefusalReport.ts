import type { Stripe } from "stripe";
import { z } from "zod";
import { identifierOf } from "../processorEvents/processorEvents.rules.ts";
import type { RefusalReport } from "../processorEvents/processorEvents.rules.ts";
import { ProcessorEventUnreadableError } from "../processor.ts";
import { unlessMissing } from "./subscriptions.ts";

const time = z.iso.datetime({ offset: true }).transform((text) => new Date(text));

// Samples have been seen with either name of the request.
const sampleRequest = z.union([
  z.object({ identifier: z.string() }).transform(({ identifier }) => identifier),
  z.object({ idempotency_key: z.string() }).transform(({ idempotency_key: key }) => key),
]);

const reportData = z.object({
  validation_end: time,
  reason: z.object({
    error_types: z.array(
      z.object({
        code: z.string(),
        sample_errors: z
          .array(z.object({ error_message: z.string().default(""), request: sampleRequest }))
          .default([]),
      }),
    ),
  }),
});

/**
 * Reads what Stripe refused after it had accepted it. A sample's identifier may be the idempotency key of the request.
 * @throws ProcessorEventUnreadableError if Stripe does not have the event, or it is no such report
 */
export const readRefusalReport = async (
  stripe: Stripe,
  eventId: string,
): Promise<RefusalReport> => {
  const event = await unlessMissing(stripe.v2.core.events.retrieve(eventId));
  if (event === null) {
    throw new ProcessorEventUnreadableError(`Stripe does not have the event ${eventId}.`);
  }
  const report = reportData.safeParse("data" in event ? event.data : null);
  if (!report.success) {
    throw new ProcessorEventUnreadableError(
      `Stripe's event ${eventId} is not a report of refused usage.`,
      { cause: report.error },
    );
  }
  const { validation_end: windowEnd, reason } = report.data;
  return {
    windowEnd,
    reasons: new Map(
      reason.error_types.flatMap(({ code, sample_errors: samples }) =>
        samples.map(({ error_message: message, request }) => [
          identifierOf(request),
          `${code}: ${message}`,
        ]),
      ),
    ),
  };
};
