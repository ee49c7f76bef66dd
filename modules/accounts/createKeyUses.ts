import type { Caller } from "./apiKeys.sql.ts";
import { updateLastUses } from "./apiKeys.sql.ts";
import { startOfHour } from "./apiKeys.rules.ts";
import { SERVICE } from "./audit.rules.ts";
import type { Context } from "../../runtime/context.ts";
import { recordAction } from "./recordAction.ts";

const CHECK_INTERVAL_MS = 60_000;

export type KeyUses = {
  /** Notes a use of a key in memory. */
  readonly note: (caller: Pick<Caller, "keyId" | "lastUsedAt">) => void;
  /** Stores what is due; the process calls it every minute. */
  readonly storeDue: () => Promise<void>;
  /** Stores everything for the last time. */
  readonly stop: () => Promise<void>;
};

/**
 * Records the hour of each key's last use, and in the audit log its first use. Uses are collected in memory and stored
 * in one statement an hour; a first use is stored within a minute. A process that is killed loses what it had not stored.
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
  let hasFirstUse = false;
  let storedHourMs = -Infinity;

  const store = async (): Promise<void> => {
    if (pending.size === 0) {
      return;
    }
    const now = clock.now();
    const stored = pending;
    const hadFirstUse = hasFirstUse;
    // Before the statement: uses are noted while it runs.
    pending = new Map();
    hasFirstUse = false;
    try {
      await db.transaction(async (transaction) => {
        for (const { id, accountId, isFirst } of await updateLastUses(transaction, stored)) {
          if (isFirst) {
            const use = { action: "key.first_use", accountId, subject: id } as const;
            await recordAction(transaction, SERVICE, now, use);
          }
        }
      });
    } catch (error) {
      pending = new Map([...stored, ...pending]);
      hasFirstUse ||= hadFirstUse;
      onError(error);
      return;
    }
    storedHourMs = startOfHour(now).getTime();
  };

  let storing: Promise<void> = Promise.resolve();
  const storeNext = (): Promise<void> => {
    storing = storing.then(store);
    return storing;
  };
  const storeDue = async (): Promise<void> => {
    if (hasFirstUse || startOfHour(clock.now()).getTime() > storedHourMs) {
      await storeNext();
    }
  };
  const timer = setInterval(() => void storeDue(), CHECK_INTERVAL_MS);
  timer.unref();

  return {
    note: ({ keyId, lastUsedAt }) => {
      const hour = startOfHour(clock.now());
      if (lastUsedAt === null || lastUsedAt < hour) {
        pending.set(keyId, hour);
        hasFirstUse ||= lastUsedAt === null;
      }
    },
    storeDue,
    stop: async () => {
      clearInterval(timer);
      await storeNext();
    },
  };
};
