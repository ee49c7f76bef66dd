import type { Clock } from "./clock.ts";
import { Refusal, invalid } from "./refusal.ts";

export type Answer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

type Entry = { readonly request: string; readonly savedAt: number; answer: Answer | null };

const KEPT_FOR_SECONDS = 24 * 3600;

export type IdempotencyStore = {
  /** The saved answer, or null when the caller is to execute the request. @throws {Refusal} a reused or busy key. */
  readonly begin: (key: string, request: string) => Answer | null;
  readonly save: (key: string, answer: Answer) => void;
  /** Forgets the key: the request was refused before it was executed. */
  readonly abandon: (key: string) => void;
};

/** The first answer of each key, 500s included; `request` is what must be the same again. */
export const createIdempotencyStore = (clock: Clock): IdempotencyStore => {
  const entries = new Map<string, Entry>();
  return {
    begin: (key, request) => {
      if (key.length > 255) {
        throw invalid("The idempotency key is longer than 255 characters.");
      }
      const entry = entries.get(key);
      if (!entry || clock.now() - entry.savedAt >= KEPT_FOR_SECONDS) {
        entries.set(key, { request, savedAt: clock.now(), answer: null });
        return null;
      }
      if (entry.request !== request) {
        throw new Refusal(
          400,
          `Keys for idempotent requests can only be used with the same parameters they were first used with: '${key}'.`,
          { type: "idempotency_error" },
        );
      }
      if (entry.answer === null) {
        throw new Refusal(
          409,
          `There is currently another in-progress request using this idempotency key: '${key}'.`,
          { type: "idempotency_error", code: "idempotency_key_in_use" },
        );
      }
      return entry.answer;
    },
    save: (key, answer) => {
      const entry = entries.get(key);
      if (entry) {
        entry.answer = answer;
      }
    },
    abandon: (key) => {
      entries.delete(key);
    },
  };
};
