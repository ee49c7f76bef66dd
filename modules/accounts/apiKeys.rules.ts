import { HOUR_MS } from "../../runtime/durations.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { AccountType, Mode } from "../records/owner.rules.ts";

/** A key's prefix shows its interface and mode, to people and to secret scanners. */
export const KEY_PREFIX = {
  organization: { live: "impact_prod_", test: "impact_test_" },
  store: { live: "PROD-", test: "TEST-" },
} as const satisfies Record<AccountType, Record<Mode, string>>;

/** What a key allows; `write` includes reading. */
export const KEY_SCOPES = ["read", "write"] as const;
type KeyScope = (typeof KEY_SCOPES)[number];

export type KeySettings = {
  readonly name: string;
  readonly scope: KeyScope;
  /** From this time on the key is invalid; null for a key that does not expire. */
  readonly expiresAt: Date | null;
};

export const isExpired = (expiresAt: Date | null, now: Date): boolean =>
  expiresAt !== null && expiresAt <= now;

/** Returns the hour of a use, as a key's last use is stored. */
export const startOfHour = (time: Date): Date =>
  new Date(Math.floor(time.getTime() / HOUR_MS) * HOUR_MS);

/** @throws DomainError request_invalid */
export const requireFutureExpiry = (expiresAt: Date | null, now: Date): void => {
  if (expiresAt !== null && isExpired(expiresAt, now)) {
    throw invalidRequest(`the expiry must be in the future; ${expiresAt.toISOString()} is past`);
  }
};

/** Returns the part of a key that may be shown. The prefix of another system's key is unknown. */
export const keyHint = (key: string, prefix = ""): string => key.slice(0, prefix.length + 4);

const SHORTEST_KEY = 16;
const LONGEST_KEY = 256;

export const hasKeyLength = ({ length }: string): boolean =>
  length >= SHORTEST_KEY && length <= LONGEST_KEY;

/**
 * Checks that a key of another system can be sent in a header, is too long to be guessed, and does not look like a key
 * of another interface or mode of ours.
 * @throws DomainError request_invalid
 */
export const requireImportableKey = (key: string, type: AccountType, mode: Mode): void => {
  if (!/^[!-~]*$/u.test(key) || !hasKeyLength(key)) {
    throw invalidRequest(
      `the key must be ${SHORTEST_KEY} to ${LONGEST_KEY} visible ASCII characters without spaces`,
    );
  }
  requireOwnPrefix(key, type, mode);
};

/** @throws DomainError request_invalid if a key, or its hint, begins like those of another interface or mode */
export const requireOwnPrefix = (key: string, type: AccountType, mode: Mode): void => {
  for (const [otherType, prefixes] of Object.entries(KEY_PREFIX)) {
    for (const [otherMode, prefix] of Object.entries(prefixes)) {
      if (key.startsWith(prefix) && (otherType !== type || otherMode !== mode)) {
        throw invalidRequest(
          `keys with the prefix ${prefix} are for ${otherType}s in ${otherMode} mode`,
        );
      }
    }
  }
};
