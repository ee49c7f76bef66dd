import { UnavailableError } from "../../domain/errors.ts";

/** Returns the error for work that was not started because no connection to the database could be opened. */
export const noConnectionError = (cause: unknown): UnavailableError =>
  new UnavailableError("the service is temporarily unavailable, try again", { cause });
