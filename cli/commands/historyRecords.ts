import { z } from "zod";
import { KINDS } from "../../modules/records/owner.rules.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { ein } from "../../modules/charities/charities.rules.ts";
import { describeIssues, messageOfIssue, mustBeOneOf } from "../../runtime/describeIssues.rules.ts";
import {
  blankAsNull,
  count,
  metadata,
  shortText,
  text,
} from "../../modules/records/fields.rules.ts";
import type { ImportedEvidence } from "../../modules/history/importedEvidence.rules.ts";
import { IMPORT_KINDS, LINE_KINDS } from "../../modules/history/importedRecords.rules.ts";
import type {
  ImportedDonation,
  ImportedRecord,
  ImportedRegistration,
  LineKind,
} from "../../modules/history/importedRecords.rules.ts";
import { MAXIMUM_CENTS, dollarsToCents } from "../../modules/records/money.rules.ts";
import { importedId } from "../../modules/records/recordIds.rules.ts";
import {
  attribution,
  fractionalCount,
  fractionalCountOf,
  idempotencyKey,
} from "../../modules/registrations/registrations.rules.ts";
import {
  customerEmail,
  customerId,
  customerName,
  notes,
  orderId,
} from "../../modules/stores/customers.rules.ts";
import { readTimestamp } from "../../modules/records/timestamps.rules.ts";
import { parseEvidence } from "./historyEvidence.ts";

const CREATED_AT_MUST_BE = "must be a time with an offset, such as 2025-06-01T12:00:00Z";

/** When something was recorded in the other system, in microseconds. */
const createdAt = () =>
  z.iso
    .datetime({ offset: true, error: CREATED_AT_MUST_BE })
    .transform((written) => readTimestamp(written, "down") ?? "")
    .refine((time) => time >= "1970", "must not be before 1970");

const optionalText = <Schema extends z.ZodType<string>>(schema: Schema) =>
  schema.transform(blankAsNull).default(null);

const amount = (maximum: number) => {
  const error = `must be an integer from 0 to ${maximum}`;
  return z.int({ error }).min(0, error).max(maximum, error);
};

const customer = {
  customer_name: optionalText(customerName()),
  customer_email: optionalText(customerEmail()),
  customer_id: optionalText(customerId()),
  order_id: optionalText(orderId()),
};

const common = {
  id: importedId().optional(),
  created_at: createdAt(),
  idempotency_key: idempotencyKey().default(null),
  attribution: attribution().default(""),
  metadata: metadata().default({}),
  refunded: z.boolean({ error: "must be true or false" }).optional(),
  ...customer,
};

const registrationLine = z.strictObject({
  ...common,
  kind: z.enum(KINDS),
  count: count(),
  fractional_count: fractionalCount().optional(),
  refunded_count: amount(Number.MAX_SAFE_INTEGER).optional(),
  notes: optionalText(notes()),
  unit_price_cents: amount(MAXIMUM_CENTS).optional(),
});

const donationLine = z.strictObject({
  ...common,
  kind: z.literal("donation"),
  amount_cents: count(),
  /** In the lists of stores. */
  amount: z.number({ error: "must be a number of US dollars" }).optional(),
  currency: z.literal("USD", { error: "must be USD" }).optional(),
  ein: ein().default(null),
  nonprofit_id: optionalText(text(200)),
  charity_name: shortText().regex(/\S/u, "must not be empty"),
});

/** The fields of a line, to name the columns of a CSV file. */
export const LINE_FIELDS: ReadonlySet<string> = new Set([
  ...Object.keys(registrationLine.shape),
  ...Object.keys(donationLine.shape),
]);

type Parsed =
  | { readonly record: ImportedRecord }
  | { readonly evidence: ImportedEvidence }
  | { readonly problem: string };

/** What a line is parsed with. */
export type ParseOptions = {
  readonly now: Date;
  readonly fractionalCounting: boolean;
  /** The mode of a store's records; null for an organization's. */
  readonly storeMode: Mode | null;
  /** The kind of lines that name none. */
  readonly kind: LineKind | null;
  /** The name of the system that has shown evidence. */
  readonly source: string | null;
};

/**
 * Returns what a line has that a store's record cannot have, or null. Stores see neither field, and an erasure would not
 * find the customers that they name.
 */
const findForeignField = (
  line: Pick<z.output<typeof registrationLine>, "attribution" | "metadata">,
  { storeMode }: ParseOptions,
): string | null => {
  if (storeMode === null) {
    return null;
  }
  const given = {
    attribution: line.attribution !== "",
    metadata: Object.keys(line.metadata).length > 0,
  };
  const field = (["attribution", "metadata"] as const).find((name) => given[name]);
  return field === undefined
    ? null
    : `${field}: stores' records have none; remove it from the line`;
};

/** Returns how many units are refunded. A list of the contract says only whether any are; then it means all. */
const refundedCountOf = ({
  count: units,
  refunded,
  refunded_count: given,
}: z.output<typeof registrationLine>): number | null => {
  const refundedCount = given ?? (refunded === true ? units : 0);
  const contradicts = refunded !== undefined && refunded !== refundedCount > 0;
  return refundedCount > units || contradicts ? null : refundedCount;
};

/** Returns what a unit cost the store, null for an organization, or what is wrong with the price. */
const unitPriceOf = (
  given: number | undefined,
  { storeMode }: ParseOptions,
): number | null | string => {
  switch (storeMode) {
    case null:
      return given === undefined ? null : "unit_price_cents: only stores' records have a price";
    case "test":
      return (given ?? 0) === 0 ? 0 : "unit_price_cents: must be 0 in test mode";
    case "live":
      return given ?? "unit_price_cents: required, because a reversal returns it to the balance";
  }
};

const toRegistration = (
  line: z.output<typeof registrationLine>,
  options: ParseOptions,
): ImportedRegistration | string => {
  const refundedCount = refundedCountOf(line);
  if (refundedCount === null) {
    return "refunded_count: must be at most count, and agree with refunded";
  }
  const unitPriceCents = unitPriceOf(line.unit_price_cents, options);
  if (typeof unitPriceCents === "string") {
    return unitPriceCents;
  }
  return {
    kind: line.kind,
    importedId: line.id ?? null,
    count: line.count,
    refundedCount,
    fractionalCount: fractionalCountOf(line.fractional_count, line.count, options),
    createdAt: line.created_at,
    idempotencyKey: line.idempotency_key,
    attribution: line.attribution,
    metadata: line.metadata,
    customerName: line.customer_name,
    customerEmail: line.customer_email,
    customerId: line.customer_id,
    orderId: line.order_id,
    notes: line.notes,
    unitPriceCents,
  };
};

const toDonation = (line: z.output<typeof donationLine>): ImportedDonation | string => {
  if (line.amount !== undefined && dollarsToCents(line.amount) !== line.amount_cents) {
    return "amount: must be amount_cents in US dollars";
  }
  const nonprofitId = line.nonprofit_id ?? line.ein;
  if (nonprofitId === null) {
    return "ein or nonprofit_id is required";
  }
  return {
    kind: "donation",
    importedId: line.id ?? null,
    amountCents: line.amount_cents,
    ein: line.ein,
    nonprofitId,
    charityName: line.charity_name,
    createdAt: line.created_at,
    refunded: line.refunded === true,
    idempotencyKey: line.idempotency_key,
    attribution: line.attribution,
    metadata: line.metadata,
    customerName: line.customer_name,
    customerEmail: line.customer_email,
    customerId: line.customer_id,
    orderId: line.order_id,
  };
};

const KIND_MUST_BE = `kind: ${mustBeOneOf(LINE_KINDS)}`;

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Removes fields that are null, which other systems write for what was not given. */
const withoutNulls = (given: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.values(given).includes(null)
    ? Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null))
    : { ...given };

/** Parses the fields of one line, or returns all that is wrong with them. */
export const parseRecord = (value: unknown, options: ParseOptions): Parsed => {
  if (!isObject(value)) {
    return { problem: "the line must be a JSON object" };
  }
  const fields = withoutNulls(value);
  fields["kind"] ??= options.kind;
  if (fields["kind"] === "evidence") {
    return parseEvidence(fields, options);
  }
  if (!IMPORT_KINDS.some((kind) => kind === fields["kind"])) {
    return { problem: KIND_MUST_BE };
  }
  const parsed =
    fields["kind"] === "donation"
      ? donationLine.safeParse(fields, { error: messageOfIssue })
      : registrationLine.safeParse(fields, { error: messageOfIssue });
  if (!parsed.success) {
    return { problem: describeIssues(parsed.error.issues, "field") };
  }
  if (new Date(parsed.data.created_at) > options.now) {
    return { problem: "created_at: must not be in the future" };
  }
  const foreign = findForeignField(parsed.data, options);
  if (foreign !== null) {
    return { problem: foreign };
  }
  const record =
    parsed.data.kind === "donation"
      ? toDonation(parsed.data)
      : toRegistration(parsed.data, options);
  return typeof record === "string" ? { problem: record } : { record };
};

/** Parses one line of JSON. */
export const parseJsonLine = (line: string, options: ParseOptions): Parsed => {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return { problem: "not valid JSON" };
  }
  return parseRecord(value, options);
};
