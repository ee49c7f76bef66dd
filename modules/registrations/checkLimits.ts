import type { DatabaseTransactionConnection } from "slonik";
import { lockAccountLimits, updateCountedUnits } from "../accounts/accountLimits.sql.ts";
import type { LockedLimits } from "../accounts/accountLimits.sql.ts";
import { listKnownKeys } from "../records/ownedRecords.sql.ts";
import { accountModeKey, ownerKey } from "../records/owner.rules.ts";
import type { AccountMode, Owner } from "../records/owner.rules.ts";
import { findExcess } from "../accounts/limits.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";
import type { NewRegistration } from "./registrations.rules.ts";

const keyOf = (owner: Owner, idempotencyKey: string): string =>
  `${ownerKey(owner)}/${idempotencyKey}`;

/** A refused registration can only repeat an earlier one, which may be one of the same batch. */
type Entry = NewRegistration & { readonly refusal?: DomainError | null };

/**
 * Compares entries with the limits of their accounts, in their order. Repeated ones record nothing, so no limit concerns
 * them.
 * @param knownKeys by `keyOf`
 */
const findRejections = <Given extends Entry>(
  entries: readonly Given[],
  limits: readonly LockedLimits[],
  knownKeys: readonly string[],
): ReadonlyMap<Given, DomainError> => {
  const uses = new Map(limits.map((each) => [accountModeKey(each), each]));
  const keys = new Set(knownKeys);
  const rejections = new Map<Given, DomainError>();
  for (const entry of entries) {
    const use = uses.get(accountModeKey(entry));
    const key = entry.idempotencyKey === null ? null : keyOf(entry, entry.idempotencyKey);
    if (!use || (key !== null && keys.has(key))) {
      continue;
    }
    const excess = entry.refusal ?? findExcess(use, "count", entry.count);
    if (excess !== null) {
      rejections.set(entry, excess);
      continue;
    }
    uses.set(accountModeKey(use), { ...use, countToday: use.countToday + entry.count });
    if (key !== null) {
      keys.add(key);
    }
  }
  return rejections;
};

/** Returns those of the entries' idempotency keys that are in use, by `keyOf`. */
const listUsedKeys = async (
  transaction: DatabaseTransactionConnection,
  entries: readonly NewRegistration[],
): Promise<readonly string[]> => {
  const owners = new Map(entries.map((entry) => [ownerKey(entry), entry]));
  const used: string[] = [];
  for (const [name, owner] of owners) {
    const keys = entries
      .filter((entry) => ownerKey(entry) === name)
      .flatMap(({ idempotencyKey }) => idempotencyKey ?? []);
    for (const key of await listKnownKeys(transaction, "registration", owner, keys)) {
      used.push(keyOf(owner, key));
    }
  }
  return used;
};

type Registration = AccountMode & { readonly isLimited: boolean; readonly count: number };

/**
 * Locks the limits of the accounts that have some.
 * @returns the limits, and a function that counts what was registered
 */
export const lockLimits = async (
  transaction: DatabaseTransactionConnection,
  registrations: readonly Registration[],
  now: Date,
): Promise<{
  readonly limits: readonly LockedLimits[];
  readonly countRegistered: (registered: readonly Registration[]) => Promise<void>;
}> => {
  const accounts = new Map(
    registrations
      .filter(({ isLimited }) => isLimited)
      .map((registration) => [accountModeKey(registration), registration]),
  );
  const limits =
    accounts.size === 0 ? [] : await lockAccountLimits(transaction, [...accounts.values()], now);
  return {
    limits,
    countRegistered: async (registered) => {
      const counted = limits
        .filter(({ countPerDay }) => countPerDay !== null)
        .map(({ accountId, mode, countToday }) => ({
          accountId,
          mode,
          countToday: registered
            .filter((each) => each.accountId === accountId && each.mode === mode)
            .reduce((sum, { count }) => sum + count, countToday),
        }));
      if (counted.length > 0) {
        await updateCountedUnits(transaction, counted, now);
      }
    },
  };
};

/**
 * Locks the limits of accounts, and compares entries with them in their order.
 * @returns the entries that exceed a limit, and a function that counts what was registered
 */
export const checkLimits = async <Given extends Entry>(
  transaction: DatabaseTransactionConnection,
  entries: readonly Given[],
  now: Date,
): Promise<{
  readonly rejections: ReadonlyMap<Given, DomainError>;
  readonly countRegistered: (registered: readonly Given[]) => Promise<void>;
}> => {
  const limited = entries.filter(({ isLimited }) => isLimited);
  const { limits, countRegistered } = await lockLimits(transaction, limited, now);
  let rejections = findRejections(limited, limits, []);
  if (rejections.size > 0) {
    rejections = findRejections(limited, limits, await listUsedKeys(transaction, limited));
  }
  return { rejections, countRegistered };
};
