import { z } from "zod";
import type { CertifiedRegistration } from "../../../../db/dashboard/certificates.ts";
import type { CertifiedCounts } from "../../../../domain/dashboard/certificate.ts";
import { CERTIFICATE_STATES, certify } from "../../../../domain/dashboard/certificate.ts";
import type { Profile } from "../../../../domain/dashboard/profile.ts";
import { formatDay, formatNumber, renderNumber } from "./format.ts";
import type { Markup } from "./html.ts";
import { html, styleElement } from "./html.ts";
import { renderBrand } from "./renderBrand.ts";
import { brandStyle, PAGE_STYLE } from "./styles.ts";

type Certificate = { readonly certified: CertifiedRegistration; readonly profile: Profile };

const UNITS = {
  tree: { one: "tree", many: "trees" },
  bottle: { one: "ocean-bound bottle", many: "ocean-bound bottles" },
} as const;

const wholeNumber = z.int().min(0);

/** Public: needs no key. It has no ids and nothing about customers. */
const certificateResponse = z.strictObject({
  name: z.string(),
  url: z.url(),
  type: z.enum(["trees", "bottles"]),
  state: z.enum(CERTIFICATE_STATES),
  test: z.boolean(),
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
});

const nameOf = ({ certified, profile }: Certificate): string =>
  profile.displayName ?? certified.ownerName;

const urlOf = ({ certified }: Certificate, baseUrl: string): string =>
  `${baseUrl}/certificate/${certified.token}`;

/** Returns the partner and project; null before the trees are planted. */
const projectOf = ({ siteName, country }: CertifiedRegistration, { planted }: CertifiedCounts) =>
  planted === 0 || siteName === null || country === null ? null : { name: siteName, country };

export const presentCertificate = (
  certificate: Certificate,
  baseUrl: string,
): z.output<typeof certificateResponse> => {
  const { certified } = certificate;
  const counts = certify(certified);
  return {
    name: nameOf(certificate),
    url: urlOf(certificate, baseUrl),
    type: certified.kind === "tree" ? "trees" : "bottles",
    state: counts.state,
    test: counts.isTest,
    simulated: counts.isSimulated,
    registered: counts.registered,
    registered_at: certified.createdAt.toISOString(),
    refunded: counts.refunded,
    planted: counts.planted,
    planted_at: counts.planted === 0 ? null : (certified.plantedAt?.toISOString() ?? null),
    planted_and_verified: counts.verified,
    verified_at: counts.verified === 0 ? null : (certified.verifiedAt?.toISOString() ?? null),
    partner: certified.partnerName,
    project: projectOf(certified, counts),
  };
};

const renderNotice = (title: string, text: string): Markup =>
  html`<p class="notice" role="note"><strong>${title}</strong> ${text}</p>`;

const renderNotices = (counts: CertifiedCounts): readonly Markup[] => [
  ...(counts.isTest
    ? [renderNotice("Test data.", "Nothing was billed, planted or rescued for this certificate.")]
    : []),
  ...(counts.isSimulated
    ? [
        renderNotice(
          "Simulation.",
          "The planting comes from a simulated partner. No trees were planted.",
        ),
      ]
    : []),
];

const onDay = (time: Date | null): string => (time === null ? "" : ` on ${formatDay(time)}`);

/** Says what is proven. Bottles have no evidence of their own. */
const explainProof = (certified: CertifiedRegistration, counts: CertifiedCounts): string => {
  if (certified.kind === "bottle") {
    return "Bottles have no evidence for single registrations.";
  }
  switch (counts.state) {
    case "refunded":
      return "Nothing: all of it was refunded.";
    case "planted_and_verified":
      return `All ${formatNumber(counts.verified)} planted, and independently verified${onDay(certified.verifiedAt)}.`;
    case "planted":
      return `All ${formatNumber(counts.planted)} planted${onDay(certified.plantedAt)}, not verified yet.`;
    case "registered":
      return certified.isOrderedElsewhere && certified.stage === null
        ? "An earlier system arranged the planting. There is no evidence here."
        : "Not planted yet. Planting and verification take months.";
  }
};

const explainRefund = ({ refunded, remaining }: CertifiedCounts): string =>
  remaining === 0
    ? `All ${formatNumber(refunded)} were refunded. This certificate no longer counts.`
    : `${formatNumber(refunded)} were refunded. ${formatNumber(remaining)} remain.`;

/** Renders a page that certifies one registration: what is registered, and apart from it what is proven. */
export const renderCertificate = (certificate: Certificate, baseUrl: string): string => {
  const { certified, profile } = certificate;
  const root = new URL(baseUrl).pathname.replace(/\/+$/u, "");
  const counts = certify(certified);
  const name = nameOf(certificate);
  const unit = UNITS[certified.kind];
  const what = counts.registered === 1 ? unit.one : unit.many;
  const project = projectOf(certified, counts);
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex, nofollow" />
        <title>Certificate of ${name}</title>
        <meta name="color-scheme" content="light dark" />
        <link rel="icon" href="${root}/dashboard/icon.svg" type="image/svg+xml" />
        <link
          rel="alternate"
          type="application/json"
          href="${root}/certificate/${certified.token}.json"
        />
        ${styleElement(PAGE_STYLE)} ${styleElement(brandStyle(profile.color))}
      </head>
      <body>
        <header>
          ${renderBrand(profile, name, root)}
          <p class="kicker">
            ${counts.state === "refunded" ? "Refunded certificate" : "Certificate"}
          </p>
          <h1>${name}</h1>
        </header>
        <main>
          <section class="hero" aria-labelledby="what">
            <h2 id="what" class="headline">
              ${renderNumber(formatNumber(counts.registered))}
              <span class="what"
                >${what} registered${counts.state === "refunded" ? " and refunded" : null}</span
              >
            </h2>
            ${renderNotices(counts)}
          </section>
          <section aria-label="Details">
            <dl class="sheet">
              <dt>Registered</dt>
              <dd>
                ${formatNumber(counts.registered)} ${what} on ${formatDay(certified.createdAt)}
              </dd>
              ${
                counts.refunded === 0
                  ? null
                  : html`<dt>Refunded</dt>
                      <dd>${explainRefund(counts)}</dd>`
              }
              <dt>Proven</dt>
              <dd>${explainProof(certified, counts)}</dd>
              ${
                project === null
                  ? null
                  : html`<dt>Project</dt>
                      <dd>${project.name}, ${project.country}</dd>`
              }
              ${
                certified.partnerName === null || certified.kind === "bottle"
                  ? null
                  : html`<dt>Planting partner</dt>
                      <dd>${certified.partnerName}</dd>`
              }
            </dl>
          </section>
        </main>
        <footer>
          <p>
            Whoever has this page's URL can read it. It names no customer.
            ${
              certified.slug === null
                ? null
                : html`<a href="${root}/dashboard/${certified.slug}">All impact of ${name}</a>.`
            }
            Machine-readable:
            <a href="${root}/certificate/${certified.token}.json">JSON</a>.
          </p>
        </footer>
      </body>
    </html> `.markup;
};
