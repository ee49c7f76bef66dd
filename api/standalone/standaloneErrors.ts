import { z } from "zod";
import type { ApiErrorCode } from "../../runtime/errorStatus.ts";
import type { Errors } from "../http/endpoint.ts";

/** The body of every error response of the standalone interface. */
export const errorBody = z.strictObject({ error: z.string() }).meta({ id: "Error" });

export const presentError = (_code: ApiErrorCode, message: string): z.output<typeof errorBody> => ({
  error: message,
});

/** For calls that may read an organization's billing period at the processor. */
export const PROCESSOR_ERROR: Errors = {
  service_unavailable:
    "The database or the payment processor cannot be reached, or too many requests of this account are waiting for it; " +
    "nothing was done. Try again.",
};
