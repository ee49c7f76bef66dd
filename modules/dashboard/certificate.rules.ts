import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { AcceptedFacts } from "../planting/fact.rules.ts";
import { inPublicPath } from "../../runtime/cell.rules.ts";
import { isSimulated } from "../planting/order.rules.ts";
import { UNIT_FIELDS } from "../accounts/profile.rules.ts";

/**
 * The last part of a certificate's URL: 128 bits in hexadecimal. Other alphabets have `-`, which commands take for an option
 * at the beginning, and programs that find URLs in texts leave out at the end.
 */
export const CERTIFICATE_TOKEN = inPublicPath("[0-9a-f]{32}");

/** Returns the number that a certificate shows. It is a part of the token that is too short to guess the rest from. */
export const certificateNumber = (token: string): string => {
  const digits = token.slice(-32);
  return `${digits.slice(0, 4)}-${digits.slice(4, 8)}`.toUpperCase();
};

export const MAXIMUM_CERTIFIED_RECORDS = 100;

const CERTIFICATE_STATES = ["registered", "planted", "planted_and_verified", "refunded"] as const;
/** How far a certified record has come; `refunded` once nothing of it remains. */
export type CertificateState = (typeof CERTIFICATE_STATES)[number];

/** Returns the state of trees or bottles, of which some remain after refunds. */
export const stateOfOne = (remaining: number, facts: AcceptedFacts): CertificateState => {
  if (remaining === 0) {
    return "refunded";
  }
  const stages = ["planted_and_verified", "planted"] as const;
  return stages.find((stage) => facts[stage] !== undefined) ?? "registered";
};

/**
 * Returns the state of all records of a certificate: that of the trees which have come least far. Without trees it is
 * registered, because bottles and donations have no evidence of their own.
 */
export const stateOfAll = (
  items: readonly { readonly type: string; readonly state: CertificateState }[],
): CertificateState => {
  const remaining = items.filter(({ state }) => state !== "refunded");
  if (remaining.length === 0) {
    return "refunded";
  }
  const trees = remaining.filter(({ type }) => type === UNIT_FIELDS[PLANTED_KIND]);
  const reached = new Set(trees.map(({ state }) => state));
  return CERTIFICATE_STATES.find((state) => reached.has(state)) ?? "registered";
};

/** Who has verified trees: whoever planted them, another organization, or nobody, because all of it is simulated. */
export type VerifiedBy = "planting_partner" | "third_party" | "simulation";
export const VERIFIED_BY_WORDS: Readonly<Record<VerifiedBy, string>> = {
  planting_partner: "by the planting partner",
  third_party: "by a third party",
  simulation: "in a simulation",
};

const comparable = (name: string): string =>
  name
    .normalize("NFKD")
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]/gu, "");

/**
 * Returns who has verified trees. A third party has another name than all who planted; the names are compared without case,
 * spaces and punctuation.
 * @param partner the kind of the partner's adapter
 * @param planters the names of the partner, and of the organization at the site
 */
export const verifiedBy = (
  verifier: string,
  partner: string,
  planters: readonly string[],
): VerifiedBy => {
  if (isSimulated(partner)) {
    return "simulation";
  }
  return planters.some((planter) => comparable(planter) === comparable(verifier))
    ? "planting_partner"
    : "third_party";
};
