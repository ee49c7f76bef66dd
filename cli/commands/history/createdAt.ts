import { z } from "zod";
import { readTimestamp } from "../../../domain/timestamps.ts";

const CREATED_AT_MUST_BE = "must be a time with an offset, such as 2025-06-01T12:00:00Z";

/** When something was recorded in the other system, in microseconds. */
export const createdAt = () =>
  z.iso
    .datetime({ offset: true, error: CREATED_AT_MUST_BE })
    .transform((written) => readTimestamp(written, "down") ?? "")
    .refine((time) => time >= "1970", "must not be before 1970");
