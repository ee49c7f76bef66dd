export const ACCOUNT_TYPES = ["organization", "store"] as const;
export type AccountType = (typeof ACCOUNT_TYPES)[number];

/** Records of production keys are `live` and billed; `test` records never leave the built-in ledger. */
export const MODES = ["live", "test"] as const;
export type Mode = (typeof MODES)[number];

/** The owner of records. Records of other accounts and of the other mode are invisible to it. */
export type AccountMode = { readonly accountId: string; readonly mode: Mode };

export const accountModeKey = ({ accountId, mode }: AccountMode): string => `${accountId}/${mode}`;

/** Returns the account and mode alone, of a caller or a record that has other fields. */
export const accountModeOf = ({ accountId, mode }: AccountMode) => ({ accountId, mode });

/** The kinds of impact actions. Stripe has a meter for each. This is their only list. */
export const KINDS = ["tree", "bottle"] as const;
export type Kind = (typeof KINDS)[number];

export const RECORD_KINDS = [...KINDS, "donation"] as const;
export type RecordKind = (typeof RECORD_KINDS)[number];

/** The kind that a partner plants, and that has evidence. */
export const PLANTED_KIND = "tree" satisfies Kind;

/** An account in one mode, for one kind: the owner of registrations and totals, and of one usage stream. */
export type Owner = AccountMode & { readonly kind: Kind };

export const ownerKey = ({ accountId, mode, kind }: Owner): string =>
  `${accountId}/${mode}/${kind}`;
