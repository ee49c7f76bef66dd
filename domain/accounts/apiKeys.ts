import type { AccountType, Mode } from "./accounts.ts";

/** A key's prefix shows its interface and mode, to people and to secret scanners. */
export const KEY_PREFIX = {
  organization: { live: "impact_prod_", test: "impact_test_" },
  store: { live: "PROD-", test: "TEST-" },
} as const satisfies Record<AccountType, Record<Mode, string>>;

/** Returns the part of a key that may be shown: its prefix and four more characters. */
export const keyHint = (key: string, prefix: string): string => key.slice(0, prefix.length + 4);
