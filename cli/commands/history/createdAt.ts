import { z } from "zod";

const CREATED_AT_MUST_BE = "must be a time with an offset, such as 2025-06-01T12:00:00Z";

/** When something was recorded in the other system. */
export const createdAt = () =>
  z.iso
    .datetime({ offset: true, error: CREATED_AT_MUST_BE })
    .transform((written) => new Date(written))
    .refine((time) => time.getTime() >= 0, "must not be before 1970");
