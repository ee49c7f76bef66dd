import type { AccountType, Mode } from "./accounts.ts";

/** What a key starts with tells its interface and mode, to people and to secret scanners alike. */
export const KEY_PREFIX = {
  organization: { live: "impact_prod_", test: "impact_test_" },
  store: { live: "PROD-", test: "TEST-" },
} as const satisfies Record<AccountType, Record<Mode, string>>;

/** The part of a key that may be shown: its prefix and four characters. */
export const keyHint = (key: string, prefix: string): string => key.slice(0, prefix.length + 4);
