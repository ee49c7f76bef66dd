import { z } from "zod";
import type { Kind } from "../records/owner.rules.ts";
import { storedMetadata } from "../records/fields.rules.ts";
import { shownIdOf } from "../records/recordIds.rules.ts";
import type { Registration } from "./registrations.rules.ts";

export const registrationJson = z
  .strictObject({
    id: z.string().meta({ examples: ["0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11"] }),
    count: z
      .int()
      .min(1)
      .meta({ description: "As registered; a refund does not change it.", examples: [3] }),
    fractional_count: z
      .number()
      .min(0)
      .meta({ examples: [0] }),
    created_at: z.iso.datetime().meta({ examples: ["2025-06-01T12:00:00.000Z"] }),
    idempotency_key: z
      .string()
      .meta({ description: "Empty if none was given.", examples: ["order-1001"] }),
    metadata: storedMetadata.meta({ examples: [{ campaign: "spring" }] }),
    attribution: z.string().meta({ examples: ["newsletter"] }),
    refunded: z.boolean().meta({ description: "True after any refund, full or partial." }),
    refunded_count: z
      .int()
      .min(0)
      .meta({ description: "Units refunded so far.", examples: [0] }),
  })
  .meta({ id: "Registration" });

export const REGISTRATION_COLUMNS = Object.keys(registrationJson.shape);

export const presentRegistration = (
  registration: Registration,
): z.output<typeof registrationJson> => ({
  id: shownIdOf(registration),
  count: registration.count,
  fractional_count: registration.fractionalCount,
  created_at: registration.createdAt.toISOString(),
  idempotency_key: registration.idempotencyKey ?? "",
  metadata: registration.metadata,
  attribution: registration.attribution,
  refunded: registration.refundedCount > 0,
  refunded_count: registration.refundedCount,
});

export const registrationCreated = (kind: Kind, registration: Registration) => {
  const { id, count, fractional_count, idempotency_key, metadata, attribution } =
    presentRegistration(registration);
  const fields = { count, fractional_count, idempotency_key, metadata, attribution };
  return { registration_id: id, kind, ...fields };
};

/** The longest JSON of a registration in a list, in bytes, without its imported id, key, attribution and metadata. */
export const FIXED_JSON_BYTES = 250;

/** PostgreSQL writes a number without an exponent: 1e300 as 301 digits, 5e-324 as 326 characters. */
const LONGEST_NUMBER_BYTES = 330;

/**
 * Returns the length that a registration's JSON in a list does not exceed, in bytes. `jsonb` writes a space after each comma
 * and colon, at most one for every two bytes.
 */
export const maximumJsonBytes = ({
  importedId = null,
  idempotencyKey,
  attribution,
  metadata,
}: Pick<Registration, "idempotencyKey" | "attribution" | "metadata"> &
  Partial<Pick<Registration, "importedId">>): number => {
  const json = JSON.stringify([importedId, idempotencyKey, attribution, metadata]);
  const exponents = json.match(/\de[+-]\d/gu)?.length ?? 0;
  return (
    FIXED_JSON_BYTES + Math.ceil(Buffer.byteLength(json) * 1.5) + exponents * LONGEST_NUMBER_BYTES
  );
};
