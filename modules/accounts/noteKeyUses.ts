import type { Caller } from "./apiKeys.sql.ts";
import { updateLastUses } from "./apiKeys.sql.ts";
import { startOfHour } from "./apiKeys.rules.ts";
import { joinCalls } from "../../db/batching/joinCalls.ts";
import type { Context } from "../../runtime/context.ts";

/** Notes a use of a key. */
export type NoteKeyUse = (caller: Pick<Caller, "keyId" | "lastUsedAt">) => void;

/**
 * Returns a function that stores the hour of each key's last use, together with those of other keys that are used at the
 * same time.
 * @param onError called when uses cannot be stored. They are noted again when the keys are next looked up
 */
export const noteKeyUses = ({
  db,
  clock,
  onError,
}: Context & {
  readonly onError: (error: unknown) => void;
}): NoteKeyUse => {
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
