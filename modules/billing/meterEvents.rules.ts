import { z } from "zod";
import { counted } from "../../runtime/counted.rules.ts";
import { KINDS, MODES } from "../records/owner.rules.ts";
import { PROCESSORS } from "./usage.rules.ts";

/**
 * The states of a meter event.
 * - `pending`: it is not known yet whether the processor has it.
 * - `delivered`: the processor has it, or there was nothing to send.
 * - `failed`: an operator has to act. The failure says why.
 * - `closed`: it is never sent, by an operator's decision or because a document at the processor bills it.
 */
export const METER_EVENT_STATES = ["pending", "delivered", "failed", "closed"] as const;
export type MeterEventState = (typeof METER_EVENT_STATES)[number];

/**
 * Why a meter event has failed.
 * - `refused`: the processor does not accept it.
 * - `too_old`: the processor does not accept usage of that age.
 * - `unclear`: the processor may have it, and its sums do not show whether it does.
 * - `waits_for_usage`: it takes back usage that the processor does not have.
 * - `difference`: no usage caused it. It corrects the processor's sum of a minute, which no other event explains.
 */
export const FAILURES = ["refused", "too_old", "unclear", "waits_for_usage", "difference"] as const;
export type Failure = (typeof FAILURES)[number];

/**
 * Returns the type of the event that clients receive for a change of a meter event's state, or null. Usage has recovered
 * when it is sent again, or when the processor turns out to have it.
 */
export const usageEventOf = (
  before: MeterEventState,
  after: MeterEventState,
): "usage.failed" | "usage.recovered" | null => {
  if (before === "failed") {
    return after === "pending" || after === "delivered" ? "usage.recovered" : null;
  }
  return after === "failed" ? "usage.failed" : null;
};

export const DOCUMENT_KINDS = ["invoice_item", "credit_note"] as const;

const integer = z.bigint().transform(Number);

/** A meter event as it is stored. The migration says what its columns mean. */
export const meterEventRow = z.strictObject({
  id: z.bigint(),
  accountId: z.uuid(),
  mode: z.enum(MODES),
  kind: z.enum(KINDS),
  second: integer,
  quantity: integer,
  generation: z.int(),
  identifier: z.string(),
  processor: z.enum(PROCESSORS),
  customerId: z.string().nullable(),
  keyGeneration: z.int(),
  state: z.enum(METER_EVENT_STATES),
  failure: z.enum(FAILURES).nullable(),
  waitsFor: z.bigint().nullable(),
  attempts: z.int(),
  firstAttemptAt: z.date().nullable(),
  leasedUntil: z.date().nullable(),
  retryAt: z.date().nullable(),
  mayBeDelivered: z.boolean(),
  askingSince: z.date().nullable(),
  lastError: z.string().nullable(),
  isLate: z.boolean(),
  documentKind: z.enum([...DOCUMENT_KINDS, "none"]).nullable(),
  documentReference: z.string().nullable(),
  sealedAt: z.date(),
  settledAt: z.date().nullable(),
});

export type StoredMeterEvent = Readonly<z.output<typeof meterEventRow>>;

/** A document at the processor that bills usage, or returns it, in place of a meter event. */
export type BillingDocument = {
  readonly kind: (typeof DOCUMENT_KINDS)[number];
  readonly reference: string;
};

/** Returns the kind of document that bills units by hand, or returns them if they are negative. */
export const documentFor = (units: number): BillingDocument["kind"] =>
  units > 0 ? "invoice_item" : "credit_note";

/** The groups of usage that operators list. Open differences are apart from failed usage. */
export const USAGE_STATES = [...METER_EVENT_STATES, "late", "difference"] as const;
export type UsageState = (typeof USAGE_STATES)[number];

type NamedEvent = { readonly id: bigint; readonly failure?: Failure | null };

/** Returns how commands name an event, such as `E5`, and an open difference: `D17`. They read both letters alike. */
export const nameOf = ({ id, failure }: NamedEvent): string =>
  `${failure === "difference" ? "D" : "E"}${id}`;

const MAXIMUM_NAMED = 20;

/** Returns events for a message, such as "E17, D21". */
export const namesOf = (events: readonly NamedEvent[]): string => {
  const others = events.length - MAXIMUM_NAMED;
  const rest = others > 0 ? `, and ${counted(others, "other")}` : "";
  return `${events.slice(0, MAXIMUM_NAMED).map(nameOf).join(", ")}${rest}`;
};

/**
 * Why usage has an operator's attention.
 * - `refused`, `too_old`, `unclear`: it has failed.
 * - `credit_owed`: a refund that the processor does not take back, because a document bills the usage, or because it was
 *   refused for an earlier customer of the organization. That customer is owed a credit note.
 * - `late`: no invoice has it, mostly because it was delivered after that of its period was finalized.
 * - `difference`: units by which the processor's sum differs, and that no event explains.
 * - `trouble`: its attempts fail, and go on.
 * - `asking`: the processor is asked whether it has the usage, once its sums show it.
 */
export const ATTENTION_CAUSES = [
  "refused",
  "too_old",
  "unclear",
  "credit_owed",
  "late",
  "difference",
  "trouble",
  "asking",
] as const;

/** The cause of a refund whose usage is not decided: it is closed together with that usage. */
export const WAITS = "waits";

/** Why items are open that a retry may settle, and those that a document closes. Unclear usage is closed only by name. */
export const RETRIED_CAUSES = ["refused", "too_old", "unclear", "difference"] as const;
export const CLOSED_CAUSES = ["refused", "too_old", "late", "credit_owed", WAITS] as const;

/** Returns whether an operator has to act. The others settle by themselves. */
export const needsOperator = (cause: (typeof ATTENTION_CAUSES)[number]): boolean =>
  cause !== "trouble" && cause !== "asking";
