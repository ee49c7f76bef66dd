import { KINDS, PLANTED_KIND } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import type {
  Certified,
  CertifiedDonation,
  CertifiedItem,
  CertifiedRegistration,
} from "../../modules/dashboard/certificates.sql.ts";
import type { CertifiedCounts } from "../../modules/dashboard/certificate.rules.ts";
import { certify } from "../../modules/dashboard/certificate.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { formatDay, formatNumber, nameUnits, renderNumber } from "./format.ts";
import type { Markup } from "./html.ts";
import { html, styleElement } from "./html.ts";
import {
  isOfTestMode,
  nameOf,
  projectOf,
  stateOfAll,
  stateOfDonation,
  urlOf,
} from "./presentCertificate.ts";
import type { Certificate } from "./presentCertificate.ts";
import { renderBrand } from "./renderBrand.ts";
import { brandStyle, PAGE_STYLE } from "./styles.ts";

const renderNotice = (title: string, text: string): Markup =>
  html`<p class="notice" role="note"><strong>${title}</strong> ${text}</p>`;

const isSimulated = (item: CertifiedItem): boolean =>
  item.kind !== "donation" && certify(item).isSimulated;

/** Returns how the description that other sites show begins, in the words of the notices; empty for real planting. */
const markOf = (certified: Certified): string => {
  if (isOfTestMode(certified)) {
    return "Test data: ";
  }
  return certified.items.some(isSimulated) ? "Simulation: " : "";
};

const renderNotices = (certified: Certified): readonly Markup[] => [
  ...(isOfTestMode(certified)
    ? [renderNotice("Test data.", "Nothing was billed, planted, rescued or given for it.")]
    : []),
  ...(certified.items.some(isSimulated)
    ? [
        renderNotice(
          "Simulation.",
          "The planting comes from a simulated partner. No trees were planted.",
        ),
      ]
    : []),
];

const onDay = (time: Date | null): string => (time === null ? "" : ` on ${formatDay(time)}`);

const allPlanted = (count: number): string =>
  count === 1 ? "Planted" : `All ${formatNumber(count)} planted`;

/** What is said of kinds without evidence. */
const UNPROVEN = {
  bottle: "Bottles have no evidence for single registrations.",
} satisfies Record<Exclude<Kind, typeof PLANTED_KIND>, string>;

/** Says what is proven. */
const explainProof = (certified: CertifiedRegistration, counts: CertifiedCounts): string => {
  if (certified.kind !== PLANTED_KIND) {
    return UNPROVEN[certified.kind];
  }
  switch (counts.state) {
    case "refunded":
      return "Nothing: all of it was refunded.";
    case "planted_and_verified":
      return counts.isSimulated
        ? `${allPlanted(counts.verified)} and verified in a simulation${onDay(certified.verifiedAt)}.`
        : `${allPlanted(counts.verified)}, and independently verified${onDay(certified.verifiedAt)}.`;
    case "planted":
      return `${allPlanted(counts.planted)}${counts.isSimulated ? " in a simulation" : ""}${onDay(certified.plantedAt)}, not verified yet.`;
    case "registered":
      if (certified.isOrderedElsewhere) {
        return "An earlier system arranged the planting. There is no evidence here.";
      }
      return counts.isSimulated
        ? "Planting has not been simulated yet."
        : "Not planted yet. Planting and verification take months.";
  }
};

const explainRefund = ({ refunded, remaining }: CertifiedCounts): string => {
  if (remaining === 0) {
    return refunded === 1 ? "Refunded." : `All ${formatNumber(refunded)} were refunded.`;
  }
  const were = refunded === 1 ? "was" : "were";
  const remain = remaining === 1 ? "remains" : "remain";
  return `${formatNumber(refunded)} ${were} refunded. ${formatNumber(remaining)} ${remain}.`;
};

const renderRegistration = (item: CertifiedRegistration): Markup => {
  const counts = certify(item);
  const project = projectOf(item, counts);
  return html`<dl class="sheet">
    <dt>Registered</dt>
    <dd>
      ${formatNumber(counts.registered)} ${nameUnits(item.kind, counts.registered)} on
      ${formatDay(item.createdAt)}
    </dd>
    ${
      counts.refunded === 0
        ? null
        : html`<dt>Refunded</dt>
            <dd>${explainRefund(counts)}</dd>`
    }
    <dt>${counts.isSimulated ? "Simulated" : "Proven"}</dt>
    <dd>${explainProof(item, counts)}</dd>
    ${
      project === null
        ? null
        : html`<dt>Project</dt>
            <dd><bdi>${project.name}</bdi>, ${project.country}</dd>`
    }
    ${
      item.partnerName === null || item.kind !== PLANTED_KIND
        ? null
        : html`<dt>Planting partner</dt>
            <dd>${item.partnerName}</dd>`
    }
  </dl>`;
};

const explainCharity = ({ isCharityConfirmed }: CertifiedDonation): string =>
  isCharityConfirmed
    ? "The charity was looked up when the donation was recorded."
    : "An earlier system recorded the donation and named the charity.";

const renderDonation = (item: CertifiedDonation): Markup =>
  html`<dl class="sheet">
    <dt>Registered</dt>
    <dd>
      ${formatCents(item.amountCents)} to <bdi>${item.charityName}</bdi> on
      ${formatDay(item.createdAt)}
    </dd>
    ${
      item.isRefunded
        ? html`<dt>Refunded</dt>
            <dd>${item.refundedAt === null ? "Refunded" : `On ${formatDay(item.refundedAt)}`}.</dd>`
        : null
    }
    <dt>Proven</dt>
    <dd>
      ${
        stateOfDonation(item) === "refunded"
          ? "Nothing: all of it was refunded."
          : `${explainCharity(item)} There is no evidence of the payment here.`
      }
    </dd>
  </dl>`;

/** A sum by itself, and within a sentence. */
type Sum = { readonly number: string; readonly what: string; readonly inSentence: string };

const sumUnits = (
  items: readonly CertifiedItem[],
  kind: CertifiedRegistration["kind"],
): readonly Sum[] => {
  const counts = items.flatMap((item) => (item.kind === kind ? [item.count] : []));
  const count = counts.reduce((sum, each) => sum + each, 0);
  const [number, what] = [formatNumber(count), nameUnits(kind, count)];
  return counts.length === 0 ? [] : [{ number, what, inSentence: `${number} ${what}` }];
};

const sumDonations = (items: readonly CertifiedItem[]): readonly Sum[] => {
  const donations = items.filter((item) => item.kind === "donation");
  const [first, ...others] = new Set(donations.map(({ charityName }) => charityName));
  if (first === undefined) {
    return [];
  }
  const number = formatCents(donations.reduce((sum, { amountCents }) => sum + amountCents, 0));
  const to = others.length === 0 ? first : `${others.length + 1} charities`;
  const isOne = donations.length === 1;
  return [
    {
      number,
      what: `${isOne ? "donation" : "donations"} to ${to}`,
      inSentence: `${isOne ? "a donation" : "donations"} of ${number} to ${to}`,
    },
  ];
};

/** Returns the part of what was registered that remains, or that was refunded. */
const partOf = (
  items: readonly CertifiedItem[],
  part: "remaining" | "refunded",
): readonly CertifiedItem[] =>
  items.flatMap((item): readonly CertifiedItem[] => {
    if (item.kind === "donation") {
      return (stateOfDonation(item) === "refunded") === (part === "refunded") ? [item] : [];
    }
    const count = certify(item)[part];
    return count === 0 ? [] : [{ ...item, count }];
  });

const conjunction = new Intl.ListFormat("en-US", { type: "conjunction" });

/** Returns the sum of the trees, or of what there is instead, and the other sums. */
const sumUp = (items: readonly CertifiedItem[]) => {
  const sums = [...KINDS.flatMap((kind) => sumUnits(items, kind)), ...sumDonations(items)];
  const whats = sums.map(({ what, inSentence }, index) => (index === 0 ? what : inSentence));
  return {
    number: sums[0]?.number ?? "",
    what: conjunction.format(whats),
    inSentence: conjunction.format(sums.map(({ inSentence }) => inSentence)),
  };
};

type Headline = {
  readonly number: string;
  readonly what: string;
  /** What to say below it about refunds. */
  readonly refunds: string | null;
};

/** Returns what counts now. After refunds of a part, that is less than what was registered. */
const headlineOf = (certified: Certified): Headline => {
  const { items } = certified;
  const registered = sumUp(items);
  const refunded = partOf(items, "refunded");
  if (refunded.length === 0) {
    return { ...registered, what: `${registered.what} registered`, refunds: null };
  }
  if (stateOfAll(certified) === "refunded") {
    return {
      ...registered,
      what: `${registered.what} registered and refunded`,
      refunds: "This certificate no longer counts.",
    };
  }
  const left = partOf(items, "remaining");
  const remaining = sumUp(left);
  const [first] = left;
  const isOne = left.length === 1 && (first?.kind === "donation" || first?.count === 1);
  return {
    ...remaining,
    what: `${remaining.what} ${isOne ? "remains" : "remain"}`,
    refunds: `${registered.inSentence} registered, ${sumUp(refunded).inSentence} refunded.`,
  };
};

/** Returns what other sites show beside a link to the page. */
const describe = (certified: Certified, { number, what, refunds }: Headline): string =>
  [`${markOf(certified)}${number} ${what}.`, ...(refunds === null ? [] : [refunds])].join(" ");

/** Renders a page that certifies a record or an order: what is registered, and apart from it what is proven. */
export const renderCertificate = (certificate: Certificate, baseUrl: string): string => {
  const { certified, profile } = certificate;
  const root = new URL(baseUrl).pathname.replace(/\/+$/u, "");
  const name = nameOf(certificate);
  const headline = headlineOf(certified);
  const title = `Certificate of ${name}`;
  const url = urlOf(certificate, baseUrl);
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex, nofollow" />
        <title>${title}</title>
        <meta property="og:type" content="website" />
        <meta property="og:title" content="${title}" />
        <meta property="og:description" content="${describe(certified, headline)}" />
        <meta property="og:url" content="${url}" />
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
            ${stateOfAll(certified) === "refunded" ? "Refunded certificate" : "Certificate"}
          </p>
          <h1><bdi>${name}</bdi></h1>
        </header>
        <main>
          <section class="hero" aria-labelledby="what">
            <h2 id="what" class="headline">
              ${renderNumber(headline.number)} <span class="what">${headline.what}</span>
            </h2>
            ${headline.refunds === null ? null : html`<p>${headline.refunds}</p>`}
            ${renderNotices(certified)}
          </section>
          <section class="certified" aria-label="Details">
            ${certified.items.map((item) =>
              item.kind === "donation" ? renderDonation(item) : renderRegistration(item),
            )}
          </section>
        </main>
        <footer>
          <p class="printed">This page: ${url}</p>
          <p>
            Whoever has this page's URL can read it. It names no customer.
            ${
              certified.slug === null
                ? null
                : html`<a href="${root}/dashboard/${certified.slug}"
                      >All impact of <bdi>${name}</bdi></a
                    >.`
            }
          </p>
          <p class="links">
            Machine-readable: <a href="${root}/certificate/${certified.token}.json">JSON</a>.
          </p>
        </footer>
      </body>
    </html> `.markup;
};
