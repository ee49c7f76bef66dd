import type { Kind } from "../accounts/accounts.ts";
import { DomainError } from "../errors.ts";
import { formatCents } from "../money.ts";

/** What one unit takes from a store's balance, in cents. */
export type Prices = Readonly<Record<Kind, number>>;

/** Parts of the interface that an operator may switch off for a store. */
export type Feature = "treePlanting" | "plasticRemoval" | "donations";

/** The writes that an `Idempotency-Key` belongs to. */
export const STORE_OPERATIONS = ["plant", "plastic", "donate", "refund"] as const;
export type StoreOperation = (typeof STORE_OPERATIONS)[number];

const ADMIN_PATH = /^\/store\/([a-z0-9][a-z0-9-]*)\/?$/iu;

const parseAddress = (address: string): URL | null => {
  const withScheme = /^[a-z][a-z0-9+.-]*:\/\//iu.test(address) ? address : `https://${address}`;
  return URL.canParse(withScheme) ? new URL(withScheme) : null;
};

/**
 * A shop's domain in the form in which it is kept: lower case, without scheme, slash or final dot. The address of
 * Shopify's admin stands for the shop's own. Null for what is not a domain.
 */
export const normalizeDomain = (given: string): string | null => {
  const url = parseAddress(given.trim());
  if (!url || !["http:", "https:"].includes(url.protocol)) {
    return null;
  }
  const { hostname, pathname, port, username, search, hash } = url;
  if (port !== "" || username !== "" || search !== "" || hash !== "") {
    return null;
  }
  const domain = hostname.replace(/\.$/u, "");
  const handle = domain === "admin.shopify.com" ? ADMIN_PATH.exec(pathname)?.[1] : undefined;
  if (handle !== undefined) {
    return `${handle.toLowerCase()}.myshopify.com`;
  }
  return /^\/*$/u.test(pathname) && /^[a-z0-9.-]{1,253}$/u.test(domain) ? domain : null;
};

/** Whether a balance is below what its operator wants to be told of. */
export const isBalanceLow = ({
  balanceCents,
  lowBalanceCents,
}: {
  readonly balanceCents: number;
  readonly lowBalanceCents: number;
}): boolean => balanceCents < lowBalanceCents;

/** What a balance lacks is told in full, so that whoever reads it knows how much to top up. */
export const balanceInsufficient = (neededCents: number, balanceCents: number): DomainError =>
  new DomainError(
    "balance_insufficient",
    `top-up balance exhausted: ${formatCents(neededCents)} needed, ${formatCents(balanceCents)} left`,
  );
