import type { CommonQueryMethods } from "slonik";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import { listCallers } from "../../db/accounts/apiKeys.ts";
import type { AccountType } from "../../domain/accounts/accounts.ts";

/** One statement reads that many keys in a millisecond or two. */
const MAXIMUM_BATCH = 200;
/** The second one starts while the first one's response is on its way. */
const MAXIMUM_RUNNING = 2;

type Waiting = {
  readonly resolve: (caller: Caller | null) => void;
  readonly reject: (error: unknown) => void;
};

/** Returns the caller of the key with this SHA-256, in hexadecimal digits; null if no valid key has it. */
export type LookUpKey = (digest: string) => Promise<Caller | null>;

/**
 * Looks up keys in batches: two statements run at the same time, and keys that arrive meanwhile wait for the next one. So
 * made-up keys, however many, use at most two connections. Concurrent lookups of one key are one lookup.
 */
export const createKeyLookups = (db: CommonQueryMethods, accountType: AccountType): LookUpKey => {
  /** By digest, in the order of arrival. */
  const waiting = new Map<string, Waiting>();
  const lookups = new Map<string, Promise<Caller | null>>();
  let running = 0;

  const read = async (batch: ReadonlyMap<string, Waiting>): Promise<void> => {
    try {
      const callers = await listCallers(db, [...batch.keys()], accountType);
      for (const [digest, { resolve }] of batch) {
        resolve(callers.get(digest) ?? null);
      }
    } catch (error) {
      for (const { reject } of batch.values()) {
        reject(error);
      }
    }
  };

  const startNext = (): void => {
    while (running < MAXIMUM_RUNNING && waiting.size > 0) {
      const batch = new Map([...waiting].slice(0, MAXIMUM_BATCH));
      for (const digest of batch.keys()) {
        waiting.delete(digest);
      }
      running += 1;
      void read(batch).finally(() => {
        running -= 1;
        startNext();
      });
    }
  };

  return (digest) => {
    const known = lookups.get(digest);
    if (known) {
      return known;
    }
    const lookup = new Promise<Caller | null>((resolve, reject) => {
      waiting.set(digest, { resolve, reject });
    }).finally(() => lookups.delete(digest));
    lookups.set(digest, lookup);
    startNext();
    return lookup;
  };
};
