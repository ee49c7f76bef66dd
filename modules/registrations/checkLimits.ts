import type { DatabaseTransactionConnection } from "slonik";
import { lockAccountLimits, updateCountedUnits } from "../accounts/accountLimits.sql.ts";
import type { LockedLimit } from "../accounts/accountLimits.sql.ts";
import { listKnownKeys } from "./registrations.sql.ts";
import { accountModeKey, ownerKey } from "../records/owner.rules.ts";
import type { AccountMode, Owner } from "../records/owner.rules.ts";
import { findExcess } from "../accounts/limits.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";
import type { NewRegistration } from "./registrations.rules.ts";

type Keyed = Owner & { readonly idempotencyKey: string | null };

const keyOf = (entry: Keyed): string | null =>
  entry.idempotencyKey === null ? null : `${ownerKey(entry)}/${entry.idempotencyKey}`;

/**
 * Returns why entries are rejected, each decided after those before it. One that repeats a key records nothing, so it is not
 * rejected.
 */
const findRejections = <Entry extends NewRegistration>(
  entries: readonly Entry[],
  limits: readonly LockedLimit[],
  knownKeys: readonly Keyed[],
): ReadonlyMap<Entry, DomainError> => {
  const uses = new Map(limits.map((each) => [accountModeKey(each), each]));
  const keys = new Set(knownKeys.map(keyOf));
  const rejections = new Map<Entry, DomainError>();
  for (const entry of entries) {
    const key = keyOf(entry);
    if (key !== null && keys.has(key)) {
      continue;
    }
    const use = uses.get(accountModeKey(entry));
    const { count, refusal } = entry;
    const rejection = refusal ?? (use ? findExcess(use, "count", count) : null);
    if (rejection !== null) {
      rejections.set(entry, rejection);
      continue;
    }
    if (use) {
      uses.set(accountModeKey(use), { ...use, countToday: use.countToday + count });
    }
    if (key !== null) {
      keys.add(key);
    }
  }
  return rejections;
};

type Registration = AccountMode & { readonly isLimited: boolean; readonly count: number };

export const lockLimits = async (
  transaction: DatabaseTransactionConnection,
  registrations: readonly Registration[],
  now: Date,
) => {
  const accounts = new Map(
    registrations
      .filter(({ isLimited }) => isLimited)
      .map((registration) => [accountModeKey(registration), registration]),
  );
  const limits =
    accounts.size === 0 ? [] : await lockAccountLimits(transaction, [...accounts.values()], now);
  return {
    limits,
    countRegistered: async (registered: readonly Registration[]): Promise<void> => {
      const counted = limits.map(({ accountId, mode, countToday }) => ({
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

/** Locks the limits of accounts, and finds which entries are refused or beyond them, in their order. */
export const checkLimits = async <Given extends NewRegistration>(
  transaction: DatabaseTransactionConnection,
  entries: readonly Given[],
  now: Date,
) => {
  const { limits, countRegistered } = await lockLimits(transaction, entries, now);
  let rejections = findRejections(entries, limits, []);
  if (rejections.size > 0) {
    rejections = findRejections(entries, limits, await listKnownKeys(transaction, entries));
  }
  return { rejections, countRegistered };
};
