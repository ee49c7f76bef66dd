import type { Operation } from "../records/idempotencyKeys.rules.ts";
import { KINDS } from "../records/owner.rules.ts";
import type { Kind } from "../records/owner.rules.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import { longText } from "../records/fields.rules.ts";
import { centsToDollars, formatCents } from "../records/money.rules.ts";

export type Prices = Readonly<Record<`${Kind}PriceCents`, number>>;

export const DEFAULT_PRICES: Prices = { treePriceCents: 50, bottlePriceCents: 10 };

/** Kinds of writes that an operator can disable for a store. */
export type Feature = "treePlanting" | "plasticRemoval" | "donations";

const FEATURE_NAMES: Readonly<Record<Feature, string>> = {
  treePlanting: "tree planting is",
  plasticRemoval: "plastic removal is",
  donations: "donations are",
};

/** The operations on stores that have idempotency keys, each with the feature that an operator can disable. */
export const FEATURES = {
  plant: "treePlanting",
  plastic: "plasticRemoval",
  donate: "donations",
  refund: null,
  topup: null,
} as const satisfies Partial<Record<Operation, Feature | null>>;
export type StoreOperation = keyof typeof FEATURES;

/** Returns the error of an operation whose feature is disabled for the store, or null. */
export const findDisabled = (
  store: Readonly<Record<Feature, boolean>>,
  operation: StoreOperation,
): DomainError | null => {
  const feature = FEATURES[operation];
  return feature === null || store[feature]
    ? null
    : new DomainError("feature_disabled", `${FEATURE_NAMES[feature]} disabled for this store`);
};

export const BALANCE_ENTRY_KINDS = ["topup", "adjustment", ...KINDS, "donation", "refund"] as const;
export type BalanceEntryKind = (typeof BALANCE_ENTRY_KINDS)[number];

/** The note of a balance entry. That of a refund is the refund's reason. */
export const balanceNote = longText;

const SHOPIFY_ADMIN_PATH = /^\/store\/([a-z0-9][a-z0-9-]*)\/?$/iu;

/** A domain has at most 253 characters. Parsing other texts takes time in proportion to the square of their length. */
const MAXIMUM_DOMAIN_URL = 500;

const parseUrl = (given: string): URL | null => {
  const withScheme = /^[a-z][a-z0-9+.-]*:\/\//iu.test(given) ? given : `https://${given}`;
  return URL.canParse(withScheme) ? new URL(withScheme) : null;
};

/**
 * Returns a shop's domain in the form in which it is stored: lower case, without scheme, slash or final dot. The URL of
 * Shopify's admin pages is read as the shop's own domain. Null if the text is not a domain.
 */
export const normalizeDomain = (given: string): string | null => {
  const url = given.length > MAXIMUM_DOMAIN_URL ? null : parseUrl(given.trim());
  if (!url || !["http:", "https:"].includes(url.protocol)) {
    return null;
  }
  const { hostname, pathname, port, username, search, hash } = url;
  if (port !== "" || username !== "" || search !== "" || hash !== "") {
    return null;
  }
  const domain = hostname.replace(/\.$/u, "");
  const handle =
    domain === "admin.shopify.com" ? SHOPIFY_ADMIN_PATH.exec(pathname)?.[1] : undefined;
  if (handle !== undefined) {
    return `${handle.toLowerCase()}.myshopify.com`;
  }
  return /^\/*$/u.test(pathname) && /^[a-z0-9.-]{1,253}$/u.test(domain) ? domain : null;
};

type Level = { readonly balanceCents: number; readonly lowBalanceCents: number };

export const isBalanceLow = ({ balanceCents, lowBalanceCents }: Level): boolean =>
  balanceCents < lowBalanceCents;

/** A write that the balance did not cover, and the balance at that time. */
export type BalanceRefusal = { readonly neededCents: bigint; readonly balanceCents: number };

/** Returns the error of a write that costs too much. It names both amounts, so that the reader knows what to top up. */
export const balanceInsufficient = ({ neededCents, balanceCents }: BalanceRefusal): DomainError =>
  new DomainError(
    "balance_insufficient",
    `top-up balance exhausted: ${formatCents(neededCents)} needed, ${formatCents(balanceCents)} left`,
  );

/** Returns the reference of a top-up without one: a second of the same amount on the same day (UTC) is a repetition. */
export const defaultTopUpReference = (now: Date, amountCents: number): string =>
  `topup-${now.toISOString().slice(0, 10)}-${centsToDollars(amountCents).toFixed(2)}`;

/**
 * Returns the balance with an amount, which may be negative.
 * @throws DomainError request_invalid if the store cannot have this balance
 */
export const addToBalance = (
  { balanceCents }: Pick<Level, "balanceCents">,
  amountCents: number,
): number => {
  const after = balanceCents + amountCents;
  if (after >= 0 && Number.isSafeInteger(after)) {
    return after;
  }
  const limit =
    after < 0 ? `become ${formatCents(after)}` : `exceed ${formatCents(Number.MAX_SAFE_INTEGER)}`;
  throw invalidRequest(`the balance is ${formatCents(balanceCents)} and cannot ${limit}`);
};
