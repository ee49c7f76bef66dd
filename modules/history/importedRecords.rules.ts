import { KINDS, PLANTED_KIND } from "../records/owner.rules.ts";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import type { Donation } from "../charities/donations.rules.ts";
import type { Registration } from "../registrations/registrations.rules.ts";
import type { CustomerDetails } from "../stores/customers.rules.ts";

/** Whose history is imported. Stores have unique times, and their keys are not stored with their records. */
export type ImportOwner = AccountMode & { readonly isStore: boolean };

/** The kinds of records in an import. */
export const IMPORT_KINDS = [...KINDS, "donation"] as const;
export type ImportKind = (typeof IMPORT_KINDS)[number];

/** What a line of an import can be: a record, or the evidence of trees. */
export const LINE_KINDS = [...IMPORT_KINDS, "evidence"] as const;
export type LineKind = (typeof LINE_KINDS)[number];

/** In microseconds, which other systems may show. */
type CreatedAt = { readonly createdAt: string };

/** A registration that another system recorded and billed. */
export type ImportedRegistration = CustomerDetails &
  CreatedAt & { readonly kind: Kind } & Pick<
    Registration,
    | "importedId"
    | "count"
    | "refundedCount"
    | "fractionalCount"
    | "idempotencyKey"
    | "attribution"
    | "metadata"
  > & {
    /** What a store paid for one unit, which a reversal returns to its balance; null if it paid nothing here. */
    readonly unitPriceCents: number | null;
  };

/** A donation that another system recorded. */
export type ImportedDonation = CreatedAt & { readonly kind: "donation" } & Omit<
    CustomerDetails,
    "notes"
  > &
  Pick<
    Donation,
    | "importedId"
    | "amountCents"
    | "ein"
    | "nonprofitId"
    | "charityName"
    | "idempotencyKey"
    | "attribution"
    | "metadata"
    | "refunded"
  >;

export type ImportedRecord = ImportedRegistration | ImportedDonation;

/** Sorts the names of an object, so that equal content makes equal JSON. The depth was limited by the parser. */
const sortNames = (_name: string, value: unknown): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value;

const idIdentity = (kind: ImportKind, id: string): string => JSON.stringify([kind, "id", id]);

/** Returns the scoped id of a tree registration. */
export const treeIdentity = (id: string): string => idIdentity(PLANTED_KIND, id);

/** Returns the id and the idempotency key of a record, as far as it has them, with their scope. */
export const identitiesOf = ({
  kind,
  importedId,
  idempotencyKey,
}: ImportedRecord): readonly string[] => [
  ...(importedId === null ? [] : [idIdentity(kind, importedId)]),
  ...(idempotencyKey === null ? [] : [JSON.stringify([kind, "key", idempotencyKey])]),
];

/** Returns all of a record, however it was formatted. */
export const contentOf = (record: ImportedRecord): string => JSON.stringify(record, sortNames);

/** Returns how much of a record is refunded, to compare it with an earlier state of the record. */
export const refundedOf = (record: ImportedRecord): number =>
  record.kind === "donation" ? Number(record.refunded) : record.refundedCount;

/**
 * Returns the content of a record without refunds, which may follow later. It identifies a record that has neither an id
 * nor an idempotency key.
 */
export const lastingContentOf = (record: ImportedRecord): string =>
  contentOf(
    record.kind === "donation" ? { ...record, refunded: false } : { ...record, refundedCount: 0 },
  );
