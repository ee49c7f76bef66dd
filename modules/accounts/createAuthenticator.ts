import type { DatabasePool } from "slonik";
import type { Caller } from "./apiKeys.sql.ts";
import { digestOf, listCallers, updateLastUses } from "./apiKeys.sql.ts";
import { hasKeyLength, isExpired, startOfHour } from "./apiKeys.rules.ts";
import { cacheLookups } from "./cacheLookups.ts";
import type { Clock } from "../../runtime/clock.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { Context } from "../../runtime/context.ts";
import { createLookups, joinCalls } from "../../db/batching/joinCalls.ts";

type NoteKeyUse = (caller: Pick<Caller, "keyId" | "lastUsedAt">) => void;

/**
 * Returns a function that stores the hour of each key's last use, together with those of other keys that are used at the
 * same time.
 * @param onError called when uses cannot be stored. They are noted again when the keys are next looked up
 */
export const noteKeyUses = (
  { db, clock }: Context,
  onError: (error: unknown) => void,
): NoteKeyUse => {
  const store = joinCalls(async (uses: readonly (readonly [id: string, hour: Date])[]) => {
    await updateLastUses(db, new Map(uses)).catch(onError);
    return uses;
  });
  return ({ keyId, lastUsedAt }) => {
    const hour = startOfHour(clock.now());
    if (lastUsedAt === null || lastUsedAt < hour) {
      void store([keyId, hour]);
    }
  };
};

/**
 * Returns a function that returns the caller of a key, of either interface; null if the key is unknown, revoked or expired.
 * It looks keys up by their SHA-256 and caches them briefly. Text that cannot be a key is not looked up. A cached key still
 * expires on time.
 */
export const createAuthenticator = ({
  db,
  clock = systemClock,
  noteUse,
  nowMs = () => performance.now(),
}: {
  readonly db: DatabasePool;
  readonly clock?: Clock;
  /** Called when a key is looked up, which is less often than requests. */
  readonly noteUse?: NoteKeyUse | undefined;
  readonly nowMs?: () => number;
}) => {
  const unlessExpired = (caller: Caller | null): Caller | null =>
    caller === null || isExpired(caller.expiresAt, clock.now()) ? null : caller;
  const lookUp = createLookups((digests) => listCallers(db, digests));
  // By the key itself: to hash it for each request would take longer than all else here.
  const findCaller = cacheLookups(async (key) => {
    const caller = await lookUp(digestOf(key));
    const valid = unlessExpired(caller);
    if (valid) {
      noteUse?.(valid);
    }
    return caller;
  }, nowMs);
  return async (key: string) => (hasKeyLength(key) ? unlessExpired(await findCaller(key)) : null);
};
