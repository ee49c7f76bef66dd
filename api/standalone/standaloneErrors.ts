import { z } from "zod";
import type { ApiErrorCode } from "../../runtime/errorStatus.ts";
import { responseObject } from "../http/parseRequest.ts";

export const errorBody = responseObject("Error", { error: z.string() });

export const presentError = (_code: ApiErrorCode, message: string): z.output<typeof errorBody> => ({
  error: message,
});
