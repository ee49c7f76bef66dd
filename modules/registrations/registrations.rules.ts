import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";
import type { Metadata } from "../records/fields.rules.ts";
import { emptyAsNull, shortText } from "../records/fields.rules.ts";

export const registrationRow = z.strictObject({
  id: z.string(),
  /** The id in the system that the registration was imported from; null if it was registered here. */
  importedId: z.string().nullable(),
  /** As registered; a refund does not change it. */
  count: z.coerce.number().pipe(z.int()),
  refundedCount: z.coerce.number().pipe(z.int()),
  createdAt: z.coerce.date(),
  fractionalCount: z.number(),
  idempotencyKey: z.string().nullable(),
  attribution: z.string(),
  metadata: z.record(z.string(), z.unknown()),
});

export type Registration = Readonly<z.output<typeof registrationRow>>;

/** The columns that every reader of a registration needs. */
export const coreRow = registrationRow.pick({
  id: true,
  importedId: true,
  count: true,
  refundedCount: true,
  createdAt: true,
});

export type NewRegistration = Owner &
  Pick<
    Registration,
    "count" | "fractionalCount" | "idempotencyKey" | "attribution" | "metadata"
  > & {
    /** Whether an operator has set limits for the account. */
    readonly isLimited: boolean;
    /** Why it can only repeat an earlier registration; null or undefined if it can be recorded. */
    readonly refusal?: DomainError | null;
  };

export const registrationOf = (
  entry: NewRegistration & { readonly id: string },
  createdAt: Date,
): Registration => ({ ...entry, importedId: null, refundedCount: 0, createdAt });

/** Registered units minus refunded ones. */
export type Totals = {
  readonly all: number;
  /** Units registered in the current calendar month, UTC. */
  readonly month: number;
};

/** Selects an owner's registrations; all conditions must hold. */
export type RegistrationFilter = {
  readonly id?: string | undefined;
  readonly attribution?: string | undefined;
  /** Inclusive. */
  readonly from?: Date | undefined;
  /** Exclusive. */
  readonly until?: Date | undefined;
  readonly metadata?: Metadata | undefined;
};

/** Returns the calendar month of a time in UTC, `YYYY-MM`. */
export const monthOf = (time: Date): string => time.toISOString().slice(0, 7);

const FRACTIONAL_COUNT_MUST_BE = "must be a number of at least 0";

/** Units including a fraction of one; never billed. */
export const fractionalCount = () =>
  z.number({ error: FRACTIONAL_COUNT_MUST_BE }).min(0, FRACTIONAL_COUNT_MUST_BE);

/** Returns what to store: an organization with fractional counting counts whole units unless it says otherwise. */
export const fractionalCountOf = (
  given: number | undefined,
  count: number,
  organization: { readonly fractionalCounting: boolean },
): number => given ?? (organization.fractionalCounting ? count : 0);

/** A tag to filter by; an empty one is no tag. */
export const attribution = shortText;

/** An empty key is read as null, which means none. */
export const idempotencyKey = () => shortText().transform(emptyAsNull);
