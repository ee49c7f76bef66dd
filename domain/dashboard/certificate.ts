import type { Mode } from "../accounts/accounts.ts";
import type { OrderStage } from "../planting/order.ts";
import { isSimulated } from "../planting/order.ts";

export const CERTIFICATE_STATES = [
  "registered",
  "planted",
  "planted_and_verified",
  "refunded",
] as const;
/** How far a certified registration has come; `refunded` once nothing of it remains. */
type CertificateState = (typeof CERTIFICATE_STATES)[number];

/** What a certificate says is registered, and what it says is proven: never one number. */
export type CertifiedCounts = {
  readonly state: CertificateState;
  readonly registered: number;
  readonly refunded: number;
  readonly remaining: number;
  readonly planted: number;
  readonly verified: number;
  readonly isTest: boolean;
  /** Whether its planting comes from a partner that plants nothing. */
  readonly isSimulated: boolean;
};

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
    isSimulated: isPlanted && isSimulated(partner ?? ""),
  };
};
