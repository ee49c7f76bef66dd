import { z } from "zod";
import { UNINVOICED_REASONS } from "./invoices/invoices.rules.ts";
import { METER_EVENT_STATES } from "./meterEvents.rules.ts";
import { KINDS } from "../records/owner.rules.ts";

/** How far the billing of a registration, with its refunds, has come; `usageJson` describes each state. */
const USAGE_REPORT_STATES = [
  "pending",
  "reported",
  "corrected",
  "failed",
  "closed",
  "not_billed",
] as const;
export type UsageReportState = (typeof USAGE_REPORT_STATES)[number];

/** The state of a usage fact: that of its meter event, once it is sealed. */
export const FACT_STATES = [...METER_EVENT_STATES, "unsealed"] as const;

/** Returns the state of a registration from those of its usage facts: what needs attention first comes first. */
export const usageStateOf = (
  { refundedCount }: { readonly refundedCount: number },
  states: readonly (typeof FACT_STATES)[number][],
): UsageReportState => {
  if (states.length === 0) {
    return "not_billed";
  }
  if (states.includes("failed")) {
    return "failed";
  }
  if (states.includes("pending") || states.includes("unsealed")) {
    return "pending";
  }
  if (states.includes("closed")) {
    return "closed";
  }
  return refundedCount > 0 ? "corrected" : "reported";
};

export const usageJson = z
  .strictObject({
    registration_id: z.string().meta({ examples: ["0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11"] }),
    kind: z.enum(KINDS),
    state: z.enum(USAGE_REPORT_STATES).meta({
      description:
        "`pending`: still to be reported. `reported`: the payment processor has it. `corrected`: refunds took usage " +
        "back, and the processor has what remains. `failed`: the operator has to act; it is not billed until then. " +
        "`closed`: the operator decided not to bill it, or bills it by a document. `not_billed`: imported from a system that billed it.",
    }),
    count: z
      .int()
      .min(1)
      .meta({ description: "As registered.", examples: [3] }),
    refunded_count: z
      .int()
      .min(0)
      .meta({ examples: [0] }),
    created_at: z.iso.datetime().meta({ examples: ["2025-06-01T12:00:00.000Z"] }),
    period: z
      .strictObject({ start: z.iso.datetime(), end: z.iso.datetime() })
      .meta({ id: "BillingPeriod" })
      .nullable()
      .meta({
        description:
          "The billing period of the registration; its end is exclusive. Null if it is not billed, or while the " +
          "period is not known.",
      }),
    invoice_number: z
      .string()
      .nullable()
      .meta({
        examples: ["A1B2C3D4-0001"],
        description:
          "The number of Stripe's finalized invoice that has the usage. Null until invoices are compared, each night.",
      }),
    uninvoiced_reason: z
      .enum(UNINVOICED_REASONS)
      .nullable()
      .meta({
        description:
          "Why no invoice has the usage that the payment processor has, such as `trial`: usage in a trial is free. Null if " +
          "an invoice has it, or may still have it.",
      }),
  })
  .meta({ id: "Usage" });

export const USAGE_COLUMNS: readonly string[] = Object.keys(usageJson.shape).flatMap((name) =>
  name === "period" ? ["period.start", "period.end"] : [name],
);

export type UsageReport = z.output<typeof usageJson>;
