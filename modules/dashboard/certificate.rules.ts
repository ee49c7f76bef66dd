import type { Mode } from "../records/owner.rules.ts";
import { KINDS, PLANTED_KIND } from "../records/owner.rules.ts";
import type { OrderStage } from "../planting/order.rules.ts";
import { isSimulated } from "../planting/order.rules.ts";

/** What can be certified. */
export const CERTIFIED_KINDS = [...KINDS, "donation"] as const;
export type CertifiedKind = (typeof CERTIFIED_KINDS)[number];

/**
 * The last part of a certificate's URL: 128 bits in hexadecimal. Other alphabets have `-`, which commands take for an option
 * at the beginning, and programs that find URLs in texts leave out at the end.
 */
export const CERTIFICATE_TOKEN = /^[0-9a-f]{32}$/u;

/** The most records that the certificate of an order has. */
export const MAXIMUM_CERTIFIED_RECORDS = 100;

export const CERTIFICATE_STATES = [
  "registered",
  "planted",
  "planted_and_verified",
  "refunded",
] as const;
/** How far a certified record has come; `refunded` once nothing of it remains. */
export type CertificateState = (typeof CERTIFICATE_STATES)[number];

/** What a certificate says is registered, and what it says is proven: never one number. */
export type CertifiedCounts = {
  readonly state: CertificateState;
  readonly registered: number;
  readonly refunded: number;
  readonly remaining: number;
  readonly planted: number;
  readonly verified: number;
  readonly isTest: boolean;
  /** Whether its trees are, or will be, planted by a partner that plants nothing. */
  readonly isSimulated: boolean;
};

/** Returns the state of certified trees or bottles, and their numbers. */
export const certify = ({
  count,
  refundedCount,
  mode,
  stage,
  partner,
}: {
  readonly count: number;
  readonly refundedCount: number;
  readonly mode: Mode;
  /** Null while there is no planting order. */
  readonly stage: OrderStage | null;
  /** Null if no partner has, or will get, a planting order of it. */
  readonly partner: string | null;
}): CertifiedCounts => {
  const remaining = count - refundedCount;
  const isVerified = stage === "planted_and_verified";
  const isPlanted = isVerified || stage === "planted";
  const reached = isVerified ? "planted_and_verified" : isPlanted ? "planted" : "registered";
  return {
    state: remaining === 0 ? "refunded" : reached,
    registered: count,
    refunded: refundedCount,
    remaining,
    planted: isPlanted ? remaining : 0,
    verified: isVerified ? remaining : 0,
    isTest: mode === "test",
    isSimulated: isSimulated(partner ?? ""),
  };
};

/**
 * Returns the state of an order: that of its trees which has come least far. Without trees it is registered, because
 * bottles and donations have no evidence of their own.
 */
export const stateOfOrder = (
  items: readonly { readonly kind: CertifiedKind; readonly state: CertificateState }[],
): CertificateState => {
  const remaining = items.filter(({ state }) => state !== "refunded");
  if (remaining.length === 0) {
    return "refunded";
  }
  const trees = remaining.filter(({ kind }) => kind === PLANTED_KIND).map(({ state }) => state);
  return trees.length === 0
    ? "registered"
    : (CERTIFICATE_STATES.find((state) => trees.includes(state)) ?? "registered");
};
