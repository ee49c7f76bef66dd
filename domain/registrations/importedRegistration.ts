import type { Kind } from "../accounts/accounts.ts";
import type { Registration } from "./registrations.ts";

/** A registration that another system recorded and billed. */
export type ImportedRegistration = { readonly kind: Kind } & Pick<
  Registration,
  "count" | "fractionalCount" | "createdAt" | "idempotencyKey" | "attribution" | "metadata"
>;

/** Sorts the names of an object, so that equal content makes equal JSON. The depth was limited by the parser. */
const sortNames = (_name: string, value: unknown): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value;

/**
 * Returns what identifies a registration in an import: its kind and idempotency key, or without a key all of its fields,
 * however they were formatted.
 */
export const contentOf = (registration: ImportedRegistration): string => {
  const { kind, idempotencyKey, count, createdAt } = registration;
  return idempotencyKey === null
    ? JSON.stringify(
        [
          kind,
          count,
          createdAt.getTime(),
          registration.fractionalCount,
          registration.attribution,
          registration.metadata,
        ],
        sortNames,
      )
    : JSON.stringify([kind, idempotencyKey]);
};
