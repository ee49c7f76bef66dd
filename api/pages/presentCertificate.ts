import { z } from "zod";
import { KINDS } from "../../modules/records/owner.rules.ts";
import type {
  Certified,
  CertifiedDonation,
  CertifiedItem,
  CertifiedRegistration,
} from "../../modules/dashboard/certificates.sql.ts";
import { formatEin } from "../../modules/charities/charities.rules.ts";
import type {
  CertificateState,
  CertifiedCounts,
} from "../../modules/dashboard/certificate.rules.ts";
import {
  CERTIFICATE_STATES,
  certify,
  stateOfOrder,
} from "../../modules/dashboard/certificate.rules.ts";
import { UNIT_FIELDS } from "../../modules/accounts/profile.rules.ts";
import type { Profile } from "../../modules/accounts/profile.rules.ts";

/** What a certificate certifies, and how the page of its owner looks. */
export type Certificate = { readonly certified: Certified; readonly profile: Profile };

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

const ownerFields = { name: z.string(), url: z.url(), test: z.boolean() };

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

export const nameOf = ({ certified, profile }: Certificate): string =>
  profile.displayName ?? certified.ownerName;

export const urlOf = ({ certified }: Certificate, baseUrl: string): string =>
  `${baseUrl}/certificate/${certified.token}`;

/** Returns the project; null before the trees are planted. */
export const projectOf = (
  { siteName, country }: CertifiedRegistration,
  { planted }: CertifiedCounts,
) => (planted === 0 || siteName === null || country === null ? null : { name: siteName, country });

export const stateOfDonation = ({ isRefunded }: CertifiedDonation): "registered" | "refunded" =>
  isRefunded ? "refunded" : "registered";

const stateOf = (item: CertifiedItem): CertificateState =>
  item.kind === "donation" ? stateOfDonation(item) : certify(item).state;

/** Returns the state of everything that a certificate certifies. */
export const stateOfAll = ({ items }: Certified): CertificateState =>
  stateOfOrder(items.map((item) => ({ kind: item.kind, state: stateOf(item) })));

/** Returns whether a certificate is of test mode, which all its records are then. */
export const isOfTestMode = ({ items }: Certified): boolean =>
  items.some(({ mode }) => mode === "test");

const presentItem = (item: CertifiedItem): z.output<typeof itemResponse> => {
  if (item.kind === "donation") {
    return {
      type: "donation",
      state: stateOfDonation(item),
      amount_cents: item.amountCents,
      currency: "USD",
      charity: {
        name: item.charityName,
        ein: item.ein === null ? null : formatEin(item.ein),
        looked_up: item.isCharityConfirmed,
      },
      registered_at: item.createdAt.toISOString(),
    };
  }
  const counts = certify(item);
  return {
    type: UNIT_FIELDS[item.kind],
    state: counts.state,
    simulated: counts.isSimulated,
    registered: counts.registered,
    registered_at: item.createdAt.toISOString(),
    refunded: counts.refunded,
    planted: counts.planted,
    planted_at: counts.planted === 0 ? null : (item.plantedAt?.toISOString() ?? null),
    planted_and_verified: counts.verified,
    verified_at: counts.verified === 0 ? null : (item.verifiedAt?.toISOString() ?? null),
    partner: item.partnerName,
    project: projectOf(item, counts),
  };
};

export const presentCertificate = (
  certificate: Certificate,
  baseUrl: string,
): z.output<typeof certificateResponse> => {
  const { certified } = certificate;
  const owner = {
    name: nameOf(certificate),
    url: urlOf(certificate, baseUrl),
    test: isOfTestMode(certified),
  };
  const items = certified.items.map(presentItem);
  const [first] = items;
  return certified.isOfOrder || first === undefined
    ? { ...owner, type: "order", state: stateOfAll(certified), items }
    : { ...owner, ...first };
};
