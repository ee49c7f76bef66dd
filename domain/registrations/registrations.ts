import type { AccountMode, Kind } from "../accounts/accounts.ts";

/** Free JSON pairs that a client groups its records by. */
export type Metadata = Readonly<Record<string, unknown>>;

/** One impact action as it was recorded. */
export type Registration = {
  readonly id: string;
  /** As registered; a refund does not change it. */
  readonly count: number;
  readonly refundedCount: number;
  readonly fractionalCount: number;
  readonly createdAt: Date;
  /** Null when the client gave none. */
  readonly idempotencyKey: string | null;
  readonly attribution: string;
  readonly metadata: Metadata;
};

/** Whose records of which kind. */
export type Owner = AccountMode & { readonly kind: Kind };

/** What a client asks to have recorded. */
export type NewRegistration = Owner &
  Pick<Registration, "count" | "fractionalCount" | "idempotencyKey" | "attribution" | "metadata">;

/** Units on record, refunded ones left out. */
export type Totals = {
  readonly all: number;
  /** The current calendar month's, UTC. */
  readonly month: number;
};

/** Which of an owner's registrations to list; all conditions must hold. */
export type RegistrationFilter = {
  readonly id?: string;
  readonly attribution?: string;
  /** First instant that belongs to the list. */
  readonly from?: Date;
  /** First instant that no longer does. */
  readonly until?: Date;
  readonly metadata?: Metadata;
};

/** The name of an instant's calendar month, UTC: `YYYY-MM`. */
export const monthOf = (instant: Date): string => instant.toISOString().slice(0, 7);
