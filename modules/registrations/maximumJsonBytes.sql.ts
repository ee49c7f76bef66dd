import type { Registration } from "./registrations.rules.ts";

/** The longest JSON of a registration in a list, in bytes, without its imported id, key, attribution and metadata. */
const FIXED_JSON_BYTES = 250;

/** PostgreSQL writes a number without an exponent: 1e300 as 301 digits, 5e-324 as 326 characters. */
const LONGEST_NUMBER_BYTES = 330;

const bytesOf = (json: string): number => Buffer.byteLength(json);

/** `jsonb` writes a space after each comma and colon, at most one for every two bytes. */
const maximumMetadataBytes = (json: string): number => {
  const exponents = json.match(/\de[+-]\d/gu)?.length ?? 0;
  return Math.ceil(bytesOf(json) * 1.5) + exponents * LONGEST_NUMBER_BYTES;
};

/** Returns the length that a registration's JSON in a list does not exceed, in bytes. */
export const maximumJsonBytes = ({
  importedId = null,
  idempotencyKey,
  attribution,
  metadata,
}: Pick<Registration, "idempotencyKey" | "attribution" | "metadata"> &
  Partial<Pick<Registration, "importedId">>): number =>
  FIXED_JSON_BYTES +
  bytesOf(JSON.stringify(importedId ?? "")) +
  bytesOf(JSON.stringify(idempotencyKey ?? "")) +
  bytesOf(JSON.stringify(attribution)) +
  maximumMetadataBytes(JSON.stringify(metadata));
