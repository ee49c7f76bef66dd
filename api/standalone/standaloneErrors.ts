import { z } from "zod";
import type { ApiErrorCode } from "../../runtime/errorStatus.ts";

/** The body of every error response of the standalone interface. */
export const errorBody = z.strictObject({ error: z.string() }).meta({ id: "Error" });

export const presentError = (_code: ApiErrorCode, message: string): z.output<typeof errorBody> => ({
  error: message,
});
