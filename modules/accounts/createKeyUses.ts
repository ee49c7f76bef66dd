import type { Caller } from "./apiKeys.sql.ts";
import { updateLastUses } from "./apiKeys.sql.ts";
import { startOfHour } from "./apiKeys.rules.ts";
import type { Context } from "../../runtime/context.ts";

const INTERVAL_MS = 60_000;

export type KeyUses = {
  /** Notes a use of a key in memory. */
  readonly note: (caller: Pick<Caller, "keyId" | "lastUsedAt">) => void;
  /** Stores what was noted; the process calls it every minute. */
  readonly store: () => Promise<void>;
  /** Stores everything for the last time. */
  readonly stop: () => Promise<void>;
};

/**
 * Records the hour of each key's last use. Uses are collected in memory; a process that is killed loses those of a minute.
 * @param onError called when uses cannot be stored; they are kept and stored later
 */
export const createKeyUses = ({
  db,
  clock,
  onError,
}: Context & {
  readonly onError: (error: unknown) => void;
}): KeyUses => {
  let pending = new Map<string, Date>();
  let storing: Promise<void> = Promise.resolve();

  const storePending = async (): Promise<void> => {
    const stored = pending;
    // Before the statement: uses are noted while it runs.
    pending = new Map();
    try {
      await updateLastUses(db, stored);
    } catch (error) {
      pending = new Map([...stored, ...pending]);
      onError(error);
    }
  };

  const store = (): Promise<void> => {
    storing = storing.then(() => (pending.size === 0 ? undefined : storePending()));
    return storing;
  };
  const timer = setInterval(() => void store(), INTERVAL_MS).unref();

  return {
    note: ({ keyId, lastUsedAt }) => {
      const hour = startOfHour(clock.now());
      if (lastUsedAt === null || lastUsedAt < hour) {
        pending.set(keyId, hour);
      }
    },
    store,
    stop: () => {
      clearInterval(timer);
      return store();
    },
  };
};
