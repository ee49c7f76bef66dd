import { z } from "zod";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { ein } from "../charities/charities.rules.ts";
import { blankAsNull, count, metadata, shortText, text } from "../records/fields.rules.ts";
import { MAXIMUM_CENTS, dollarsToCents } from "../records/money.rules.ts";
import { KINDS, PLANTED_KIND } from "../records/owner.rules.ts";
import type { AccountMode, Mode } from "../records/owner.rules.ts";
import { importedId } from "../records/recordIds.rules.ts";
import { readTimestamp } from "../records/timestamps.rules.ts";
import {
  attribution,
  fractionalCount,
  fractionalCountOf,
  idempotencyKey,
} from "../registrations/registrations.rules.ts";
import {
  customerEmail,
  customerId,
  customerName,
  notes,
  orderId,
} from "../stores/customers.rules.ts";

/** Whose history is imported. Stores have unique times, and their keys are not stored with their records. */
export type ImportOwner = AccountMode & { readonly isStore: boolean };

/** What a line of an import can be: a record, or the evidence of trees. */
export const LINE_KINDS = [...KINDS, "donation", "evidence"] as const;
export type LineKind = (typeof LINE_KINDS)[number];

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

const common = {
  id: importedId().nullable().default(null),
  created_at: createdAt(),
  idempotency_key: idempotencyKey().default(null),
  attribution: attribution().default(""),
  metadata: metadata().default({}),
  refunded: z.boolean({ error: "must be true or false" }).optional(),
  customer_name: optionalText(customerName()),
  customer_email: optionalText(customerEmail()),
  customer_id: optionalText(customerId()),
  order_id: optionalText(orderId()),
};

/** The fields of a line, which are those of the API's lists. Its record has them under the names of the columns. */
export const registrationLine = z.strictObject({
  ...common,
  kind: z.enum(KINDS),
  count: count(),
  fractional_count: fractionalCount().optional(),
  refunded_count: amount(Number.MAX_SAFE_INTEGER).optional(),
  notes: optionalText(notes()),
  unit_price_cents: amount(MAXIMUM_CENTS).optional(),
});
type RegistrationLine = z.output<typeof registrationLine>;

export const donationLine = z.strictObject({
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
type DonationLine = z.output<typeof donationLine>;

/** The names of all fields, for the columns of a CSV file. */
export const LINE_FIELDS: ReadonlySet<string> = new Set([
  ...Object.keys(registrationLine.shape),
  ...Object.keys(donationLine.shape),
]);

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

export const reject = (problem: string): never => {
  throw invalidRequest(problem);
};

/** Returns what a store paid for one unit; null for an organization. */
const unitPriceOf = (given: number | undefined, storeMode: Mode | null): number | null => {
  switch (storeMode) {
    case null:
      return given === undefined
        ? null
        : reject("unit_price_cents: only stores' records have a price");
    case "test":
      return (given ?? 0) === 0 ? 0 : reject("unit_price_cents: must be 0 in test mode");
    case "live":
      return (
        given ?? reject("unit_price_cents: required, because a reversal returns it to the balance")
      );
  }
};

/** A list of the contract says only whether any units are refunded; then it means all. */
const registrationOf = ({ id, refunded, ...line }: RegistrationLine, options: ParseOptions) => {
  const refundedCount = line.refunded_count ?? (refunded === true ? line.count : 0);
  const contradicts = refunded !== undefined && refunded !== refundedCount > 0;
  return refundedCount > line.count || contradicts
    ? reject("refunded_count: must be at most count, and agree with refunded")
    : {
        ...line,
        imported_id: id,
        refunded_count: refundedCount,
        fractional_count: fractionalCountOf(line.fractional_count, line.count, options),
        unit_price_cents: unitPriceOf(line.unit_price_cents, options.storeMode),
      };
};

const donationOf = ({ id, amount: dollars, currency: _currency, ...line }: DonationLine) =>
  dollars !== undefined && dollarsToCents(dollars) !== line.amount_cents
    ? reject("amount: must be amount_cents in US dollars")
    : {
        ...line,
        imported_id: id,
        nonprofit_id: line.nonprofit_id ?? line.ein ?? reject("ein or nonprofit_id is required"),
        refunded: line.refunded === true,
      };

export type ImportedRegistration = Readonly<ReturnType<typeof registrationOf>>;
export type ImportedDonation = Readonly<ReturnType<typeof donationOf>>;
export type ImportedRecord = ImportedRegistration | ImportedDonation;

/** Fields that only the other type of account shows. An erasure would not find the customers that they name. */
const FOREIGN_FIELDS = {
  stores: ["attribution", "metadata"],
  organizations: ["customer_name", "customer_email", "customer_id", "order_id", "notes"],
} as const;

const isEmpty = (value: unknown): boolean =>
  value === null || value === "" || (typeof value === "object" && Object.keys(value).length === 0);

/** @throws DomainError request_invalid, which rejects the line */
export const recordOf = (
  line: RegistrationLine | DonationLine,
  options: ParseOptions,
): ImportedRecord => {
  if (new Date(line.created_at) > options.now) {
    return reject("created_at: must not be in the future");
  }
  if (line.id === null && line.idempotency_key === null) {
    return reject("id: required, or an idempotency_key, so that the import can be repeated");
  }
  const owners = options.storeMode === null ? "organizations" : "stores";
  const fields: Readonly<Record<string, unknown>> = { notes: null, ...line };
  const foreign = FOREIGN_FIELDS[owners].find((name) => !isEmpty(fields[name]));
  if (foreign !== undefined) {
    return reject(`${foreign}: ${owners}' records have none; remove it from the line`);
  }
  return line.kind === "donation" ? donationOf(line) : registrationOf(line, options);
};

const idIdentity = (kind: ImportedRecord["kind"], id: string) => JSON.stringify([kind, "id", id]);

export const treeIdentity = (id: string): string => idIdentity(PLANTED_KIND, id);

/** Returns the id and the idempotency key of a record, as far as it has them, with their scope. */
export const identitiesOf = ({ kind, imported_id: id, idempotency_key: key }: ImportedRecord) => [
  ...(id === null ? [] : [idIdentity(kind, id)]),
  ...(key === null ? [] : [JSON.stringify([kind, "key", key])]),
];

/** Returns how much of a record is refunded, to compare it with an earlier state of the record. */
export const refundedOf = (record: ImportedRecord): number =>
  record.kind === "donation" ? Number(record.refunded) : record.refunded_count;

/** Returns the content of a record without its id, which not every line of it has, and without refunds, which may follow later. */
export const lastingContentOf = ({ imported_id: _id, ...record }: ImportedRecord): string =>
  JSON.stringify(
    record.kind === "donation" ? { ...record, refunded: false } : { ...record, refunded_count: 0 },
  );
