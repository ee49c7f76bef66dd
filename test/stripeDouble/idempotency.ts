import { ErrorResponse, invalid } from "./responses.ts";
import type { HttpResponse } from "./responses.ts";
import type { Clock } from "./state.ts";

type Entry = {
  readonly request: string;
  readonly startedAt: number;
  response: HttpResponse | null;
};

const RETENTION_SECONDS = 24 * 3600;

/** Stores the first response of each idempotency key for 24 hours, 500s included. */
export const createIdempotencyStore = (clock: Clock) => {
  const entries = new Map<string, Entry>();
  return {
    /** Returns the stored response, or null if the caller is to execute the request: its path and parameters. */
    begin: (key: string, request: string): HttpResponse | null => {
      if (key.length > 255) {
        throw invalid("The idempotency key is longer than 255 characters.");
      }
      const entry = entries.get(key);
      if (!entry || clock.now() - entry.startedAt >= RETENTION_SECONDS) {
        entries.set(key, { request, startedAt: clock.now(), response: null });
        return null;
      }
      if (entry.request !== request) {
        throw new ErrorResponse(
          400,
          `Keys for idempotent requests can only be used with the same parameters they were first used with: '${key}'.`,
          { type: "idempotency_error" },
        );
      }
      if (entry.response === null) {
        throw new ErrorResponse(
          409,
          `There is currently another in-progress request using this idempotency key: '${key}'.`,
          { type: "idempotency_error", code: "idempotency_key_in_use" },
        );
      }
      return entry.response;
    },
    save: (key: string, response: HttpResponse): void => {
      const entry = entries.get(key);
      if (entry) {
        entry.response = response;
      }
    },
    /** Forgets a key whose request was rejected before it was executed. */
    abandon: (key: string) => entries.delete(key),
  };
};
