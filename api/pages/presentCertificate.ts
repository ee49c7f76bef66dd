import { z } from "zod";
import { KINDS } from "../../modules/records/owner.rules.ts";
import type {
  Certified,
  CertifiedDonation,
  CertifiedItem,
  CertifiedRegistration,
} from "../../modules/dashboard/certificates.sql.ts";
import { formatEin } from "../../modules/charities/charities.rules.ts";
import {
  CERTIFICATE_STATES,
  VERIFIED_BY,
  certificateNumber,
  certify,
  stateOfOrder,
  verifiedBy,
} from "../../modules/dashboard/certificate.rules.ts";
import type { AcceptedFacts } from "../../modules/planting/fact.rules.ts";
import { UNIT_FIELDS } from "../../modules/accounts/profile.rules.ts";
import type { Profile } from "../../modules/accounts/profile.rules.ts";
import { absoluteUrl } from "../endpoints/presentTreeEvidence.ts";
import { linksOf } from "./renderDocument.ts";

/*
 * The presenter of a certificate: what its page and its JSON say about each record.
 */

/** What a certificate certifies, and how the page of its owner looks. */
export type Certificate = { readonly certified: Certified; readonly profile: Profile };

/** Returns the latest photo, or the still of a video, of planted trees; null if there is none. */
const photoOf = ({ planted, planted_and_verified: verified }: AcceptedFacts) => {
  const medium = planted?.media.at(-1);
  const still = medium?.type === "video" ? medium.thumbnail_url : medium?.url;
  const url = verified?.photos.at(-1) ?? still;
  const fact = verified ?? planted;
  return url === undefined || fact === undefined
    ? null
    : { url, takenAt: new Date(fact.occurred_at) };
};

/** Returns who verified trees, when, and with which document; null if they are not verified. */
const verificationOf = ({ facts, partner, partnerName }: CertifiedRegistration) => {
  const { planted_and_verified: verified } = facts;
  const planters = [partnerName ?? "", verified?.planting_site.organization_name ?? ""];
  return verified
    ? {
        verifier: verified.verifier,
        document: verified.image_url,
        species: verified.species,
        at: new Date(verified.occurred_at),
        by: verifiedBy(verified.verifier, partner ?? "", planters),
      }
    : null;
};

const viewRegistration = (item: CertifiedRegistration) => {
  const counts = certify(item);
  const { facts } = item;
  const { planted_and_verified: verified, planted = verified, allocated } = facts;
  const isPlanted = planted !== undefined && counts.planted > 0;
  return {
    item,
    ...counts,
    /** The first site of its trees; null before they are planted, as what follows. */
    site: isPlanted
      ? (allocated?.allocations[0]?.planting_site ?? verified?.planting_site ?? null)
      : null,
    photo: isPlanted ? photoOf(facts) : null,
    plantedAt: isPlanted ? new Date(planted.occurred_at) : null,
    verification: counts.verified > 0 ? verificationOf(item) : null,
  };
};

/** The amounts are cents. */
const viewDonation = (item: CertifiedDonation) =>
  ({
    item,
    state: item.isRefunded ? "refunded" : "registered",
    registered: item.amountCents,
    remaining: item.isRefunded ? 0 : item.amountCents,
    refunded: item.isRefunded ? item.amountCents : 0,
    isSimulated: false,
  }) as const;

export type RegistrationView = ReturnType<typeof viewRegistration>;
export type DonationView = ReturnType<typeof viewDonation>;
export type ItemView = RegistrationView | DonationView;

export const isDonation = (view: ItemView): view is DonationView => view.item.kind === "donation";

const isPictured = (view: ItemView): view is RegistrationView =>
  !isDonation(view) && view.photo !== null;

const viewItem = (item: CertifiedItem): ItemView =>
  item.kind === "donation" ? viewDonation(item) : viewRegistration(item);

export type CertificateView = ReturnType<typeof viewCertificate>;

/** Returns what the formats of a certificate show. */
export const viewCertificate = ({ certified, profile }: Certificate, baseUrl: string) => {
  const items = certified.items.map(viewItem);
  return {
    certified,
    profile,
    links: linksOf(baseUrl, `/certificate/${certified.token}`),
    name: profile.displayName ?? certified.ownerName,
    number: certificateNumber(certified.token),
    items,
    /** The first trees of which there is a photo. */
    pictured: items.find(isPictured) ?? null,
    state: stateOfOrder(items.map(({ item: { kind }, state }) => ({ kind, state }))),
    /** Whether it is of test mode, which all its records are then. */
    isTest: certified.items.some(({ mode }) => mode === "test"),
    isSimulated: items.some(({ isSimulated }) => isSimulated),
  };
};

const wholeNumber = z.int().min(0);

const registrationFields = {
  type: z.enum(KINDS.map((kind) => UNIT_FIELDS[kind])),
  state: z.enum(CERTIFICATE_STATES),
  simulated: z.boolean(),
  registered: wholeNumber,
  registered_at: z.iso.datetime(),
  refunded: wholeNumber,
  planted: wholeNumber,
  planted_at: z.iso.datetime().nullable(),
  planted_and_verified: wholeNumber,
  verified_at: z.iso.datetime().nullable(),
  verification: z
    .strictObject({
      verifier: z.string(),
      by: z.enum(VERIFIED_BY).meta({
        description: "A third party is an organization that did not plant the trees.",
      }),
      document_url: z.string(),
    })
    .nullable(),
  photo_url: z.string().nullable(),
  partner: z.string().nullable(),
  project: z.strictObject({ name: z.string(), country: z.string() }).nullable(),
};

const donationFields = {
  type: z.literal("donation"),
  state: z.enum(["registered", "refunded"]),
  amount_cents: wholeNumber,
  currency: z.literal("USD"),
  charity: z.strictObject({
    name: z.string(),
    ein: z.string().nullable(),
    looked_up: z.boolean().meta({
      description:
        "Whether the charity was looked up when the donation was recorded. If not, an earlier system recorded the donation and named the charity.",
    }),
  }),
  registered_at: z.iso.datetime(),
};

const itemResponse = z.union([z.strictObject(registrationFields), z.strictObject(donationFields)]);

const ownerFields = {
  name: z.string(),
  url: z.url(),
  number: z.string(),
  issued_at: z.iso.datetime(),
  test: z.boolean(),
};

/** Public: needs no key. It has no ids and nothing about customers. */
export const certificateResponse = z
  .union([
    z.strictObject({ ...ownerFields, ...registrationFields }),
    z.strictObject({ ...ownerFields, ...donationFields }),
    z.strictObject({
      ...ownerFields,
      type: z.literal("order"),
      state: z.enum(CERTIFICATE_STATES),
      items: z.array(itemResponse),
    }),
  ])
  .meta({ id: "Certificate" });

const presentDonation = ({ item, state }: DonationView): z.output<typeof itemResponse> => ({
  type: "donation",
  state,
  amount_cents: item.amountCents,
  currency: "USD",
  charity: {
    name: item.charityName,
    ein: item.ein === null ? null : formatEin(item.ein),
    looked_up: item.isCharityConfirmed,
  },
  registered_at: item.createdAt.toISOString(),
});

const presentItem = (view: ItemView, baseUrl: string): z.output<typeof itemResponse> => {
  if (isDonation(view)) {
    return presentDonation(view);
  }
  const { item, site, photo, verification } = view;
  return {
    type: UNIT_FIELDS[item.kind],
    state: view.state,
    simulated: view.isSimulated,
    registered: view.registered,
    registered_at: item.createdAt.toISOString(),
    refunded: view.refunded,
    planted: view.planted,
    planted_at: view.plantedAt?.toISOString() ?? null,
    planted_and_verified: view.verified,
    verified_at: verification?.at.toISOString() ?? null,
    verification: verification && {
      verifier: verification.verifier,
      by: verification.by,
      document_url: absoluteUrl(verification.document, baseUrl),
    },
    photo_url: photo && absoluteUrl(photo.url, baseUrl),
    partner: item.partnerName,
    project: site && { name: site.name, country: site.country },
  };
};

export const presentCertificate = (view: CertificateView): z.output<typeof certificateResponse> => {
  const { certified, name, links, number, isTest, state } = view;
  const owner = {
    name,
    url: links.pageUrl,
    number,
    issued_at: certified.createdAt.toISOString(),
    test: isTest,
  };
  const items = view.items.map((item) => presentItem(item, links.baseUrl));
  const [first] = items;
  return certified.isOfOrder || first === undefined
    ? { ...owner, type: "order", state, items }
    : { ...owner, ...first };
};
