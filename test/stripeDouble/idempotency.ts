import { ErrorResponse } from "./responses.ts";
import type { HttpResponse } from "./responses.ts";
import type { Clock } from "./state.ts";

type Entry = {
  /** Its path and parameters. */
  readonly request: string;
  readonly startedAt: number;
  response: HttpResponse | null;
};

const RETENTION_SECONDS = 24 * 3600;

const conflict = (status: number, message: string, code: Readonly<Record<string, string>> = {}) =>
  new ErrorResponse(status, message, { type: "idempotency_error", ...code });

/**
 * Creates the function that executes the first request of each idempotency key, and repeats its response for 24 hours, 500s
 * included. A request that throws leaves its key free.
 */
export const createIdempotency = (clock: Clock) => {
  const entries = new Map<string, Entry>();
  return async (key: string | null, request: string, execute: () => Promise<HttpResponse>) => {
    if (key === null) {
      return execute();
    }
    const entry = entries.get(key);
    if (!entry || clock.now() - entry.startedAt >= RETENTION_SECONDS) {
      const added: Entry = { request, startedAt: clock.now(), response: null };
      entries.set(key, added);
      try {
        added.response = await execute();
        return added.response;
      } catch (error) {
        entries.delete(key);
        throw error;
      }
    }
    if (entry.request !== request) {
      const rule = "Keys for idempotent requests can only be used with the same parameters";
      throw conflict(400, `${rule} they were first used with: '${key}'.`);
    }
    if (entry.response === null) {
      const problem = "There is currently another in-progress request using this idempotency key";
      throw conflict(409, `${problem}: '${key}'.`, { code: "idempotency_key_in_use" });
    }
    const { headers } = entry.response;
    return { ...entry.response, headers: { ...headers, "idempotent-replayed": "true" } };
  };
};
