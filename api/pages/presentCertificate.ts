import type {
  Certified,
  CertifiedDonation,
  CertifiedRegistration,
} from "../../modules/dashboard/certificates.sql.ts";
import { formatEin } from "../../modules/charities/charities.rules.ts";
import {
  certificateNumber,
  stateOfAll,
  stateOfOne,
  verifiedBy,
} from "../../modules/dashboard/certificate.rules.ts";
import { UNIT_FIELDS } from "../../modules/accounts/profile.rules.ts";
import {
  expectedPartner,
  isSimulated,
  PLANTING_STAGES,
} from "../../modules/planting/order.rules.ts";
import type { PlantingStage } from "../../modules/planting/order.rules.ts";
import { PLANTED_KIND } from "../../modules/records/owner.rules.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { absoluteUrl } from "../endpoints/presentTreeEvidence.ts";

/* The JSON of a certificate is all that its page shows. It has no ids and nothing about customers. */

/** The milestones that are listed before they are reached. Not every partner reports the others. */
const AWAITED: ReadonlySet<PlantingStage> = new Set(["planted", "planted_and_verified"]);

/** Returns the milestones of planting, with null for when one is awaited. */
const timelineOf = ({ facts, createdAt }: CertifiedRegistration) => {
  const last = PLANTING_STAGES.findLastIndex((stage) => facts[stage] !== undefined);
  const reached = PLANTING_STAGES.flatMap((event, index) => {
    const at = facts[event]?.occurred_at ?? null;
    return at !== null || (index > last && AWAITED.has(event)) ? [{ event, at }] : [];
  });
  return [{ event: "registered", at: createdAt.toISOString() } as const, ...reached];
};

/** Returns the latest photo, or the still of a video, of planted trees. */
const photoOf = ({ planted, planted_and_verified: verified }: CertifiedRegistration["facts"]) => {
  const medium = planted?.media.at(-1);
  return verified?.photos.at(-1) ?? (medium?.type === "video" ? medium.thumbnail_url : medium?.url);
};

const presentRegistration = (item: CertifiedRegistration, { base, partnerFor }: PresentOptions) => {
  const { kind, facts, partnerName } = item;
  const remaining = item.count - item.refundedCount;
  const { planted_and_verified: verified, planted = verified } = remaining > 0 ? facts : {};
  const isPlanted = planted !== undefined;
  const site = facts.allocated?.allocations[0]?.planting_site ?? verified?.planting_site;
  const photo = photoOf(facts);
  const partner =
    kind === PLANTED_KIND ? expectedPartner(item, partnerFor(item.mode)) : item.partner;
  return {
    type: UNIT_FIELDS[kind],
    state: stateOfOne(remaining, facts),
    /** Whether its trees are, or will be, planted by a partner that plants nothing. */
    simulated: isSimulated(partner ?? ""),
    registered: item.count,
    registered_at: item.createdAt.toISOString(),
    refunded: item.refundedCount,
    planted: isPlanted ? remaining : 0,
    planted_at: planted?.occurred_at ?? null,
    planted_and_verified: verified ? remaining : 0,
    verified_at: verified?.occurred_at ?? null,
    /** Null for bottles, and for trees whose planting another system has arranged. */
    timeline: kind === PLANTED_KIND && !item.isOrderedElsewhere ? timelineOf(item) : null,
    verification: verified
      ? {
          verifier: verified.verifier,
          by: verifiedBy(verified.verifier, partner ?? "", [
            partnerName ?? "",
            verified.planting_site.organization_name,
          ]),
          document_url: absoluteUrl(verified.image_url, base),
          species: verified.species,
        }
      : null,
    photo_url: isPlanted && photo !== undefined ? absoluteUrl(photo, base) : null,
    partner: partnerName,
    /** The first site of its trees; null before they are planted. */
    project:
      isPlanted && site
        ? {
            name: site.name,
            region: site.region,
            country: site.country,
            latitude: site.latitude,
            longitude: site.longitude,
          }
        : null,
  };
};

const presentDonation = (item: CertifiedDonation) => ({
  type: "donation" as const,
  state: item.isRefunded ? ("refunded" as const) : ("registered" as const),
  simulated: false,
  amount_cents: item.amountCents,
  currency: "USD",
  charity: {
    name: item.charityName,
    ein: item.ein === null ? null : formatEin(item.ein),
    /** If not, an earlier system has recorded the donation and named the charity. */
    looked_up: item.isCharityConfirmed,
  },
  registered_at: item.createdAt.toISOString(),
  /** Null if an earlier system has refunded it: its lists have no date. */
  refunded_at: item.refundedAt?.toISOString() ?? null,
});

export type RegistrationJson = ReturnType<typeof presentRegistration>;
export type DonationJson = ReturnType<typeof presentDonation>;
export type ItemJson = RegistrationJson | DonationJson;
export type CertificateJson = ReturnType<typeof presentCertificate>;

type PresentOptions = {
  /** The certificate's own URL. */
  readonly url: string;
  /** What the URLs of this service begin with: the public base URL, or its path for links of the page. */
  readonly base: string;
  /** Returns the kind of the partner that gets new trees of a mode. */
  readonly partnerFor: (mode: Mode) => string;
};

/** @param name of the organization that owns the records, as its public pages show it */
export const presentCertificate = (certified: Certified, name: string, options: PresentOptions) => {
  const items = certified.items.map((item) =>
    item.kind === "donation" ? presentDonation(item) : presentRegistration(item, options),
  );
  return {
    name,
    url: options.url,
    number: certificateNumber(certified.token),
    issued_at: certified.createdAt.toISOString(),
    /** All its records are of one mode. */
    test: certified.items.some(({ mode }) => mode === "test"),
    simulated: items.some(({ simulated }) => simulated),
    state: stateOfAll(items),
    dashboard_url: certified.slug === null ? null : `${options.base}/dashboard/${certified.slug}`,
    items,
  };
};
