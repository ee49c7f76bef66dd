import { VERIFIED_BY_WORDS } from "../../modules/dashboard/certificate.rules.ts";
import type { Profile } from "../../modules/accounts/profile.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import type { Rendered } from "../http/taggedResponses.ts";
import { formatDay, formatNumber, listSpecies, nameUnits, renderNumber } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import type {
  CertificateJson,
  DonationJson,
  ItemJson,
  RegistrationJson,
} from "./presentCertificate.ts";
import { renderDocument, renderHeader, renderNotice, UNFRAMED } from "./renderDocument.ts";
import type { PageLinks } from "./renderDocument.ts";
import { renderMap } from "./worldMap.ts";
import type { MapPoint } from "./worldMap.ts";

/** A sum by itself, and within a sentence. */
type Sum = { readonly number: string; readonly what: string; readonly inSentence: string };

/** Returns the units, or cents, of a record. */
const registeredOf = (item: ItemJson): number =>
  item.type === "donation" ? item.amount_cents : item.registered;

const remainingOf = (item: ItemJson): number =>
  item.state === "refunded" ? 0 : registeredOf(item) - ("refunded" in item ? item.refunded : 0);

const sumDonations = (items: readonly ItemJson[], cents: number): Sum => {
  const number = formatCents(cents);
  const charities = new Set(items.flatMap((item) => ("charity" in item ? item.charity.name : [])));
  const to = charities.size === 1 ? [...charities].join("") : `${charities.size} charities`;
  const [noun, phrase] =
    items.length === 1 ? ["donation", "a donation"] : ["donations", "donations"];
  return { number, what: `${noun} to ${to}`, inSentence: `${phrase} of ${number} to ${to}` };
};

const conjunction = new Intl.ListFormat("en-US", { type: "conjunction" });

/** Returns the sums that count now, the first one apart, and what to say about refunds. */
const headlineOf = ({ items, state }: CertificateJson) => {
  const isPart =
    state !== "refunded" && items.some((item) => remainingOf(item) < registeredOf(item));
  const countOf = isPart ? remainingOf : registeredOf;
  const sums = (["trees", "bottles", "donation"] as const).flatMap((type): readonly Sum[] => {
    const counted = items.filter((item) => item.type === type && countOf(item) > 0);
    const sum = counted.reduce((total, item) => total + countOf(item), 0);
    if (sum === 0) {
      return [];
    }
    if (type === "donation") {
      return [sumDonations(counted, sum)];
    }
    const [number, what] = [formatNumber(sum), nameUnits(type, sum)];
    return [{ number, what, inSentence: `${number} ${what}` }];
  });
  const whats = sums.map(({ what, inSentence }, index) => (index === 0 ? what : inSentence));
  const ending = isPart ? "left" : state === "refunded" ? "registered and refunded" : "registered";
  return {
    number: sums[0]?.number ?? "",
    what: `${conjunction.format(whats)} ${ending}`,
    refunds: isPart
      ? "The rest of what was registered was refunded."
      : state === "refunded"
        ? "This certificate no longer counts."
        : null,
  };
};

const onDay = (time: string | null): string => (time === null ? "" : ` on ${formatDay(time)}`);

const allPlanted = (count: number): string =>
  count === 1 ? "Planted" : `All ${formatNumber(count)} planted`;

const NOTHING_LEFT = "Nothing: all of it was refunded.";

const explainProof = (item: RegistrationJson): string => {
  const { state, simulated, planted, verification } = item;
  if (item.type === "bottles") {
    return "Bottles have no evidence for single registrations.";
  }
  switch (state) {
    case "refunded":
      return NOTHING_LEFT;
    case "planted_and_verified":
      return `${allPlanted(planted)} and verified${verification ? ` ${VERIFIED_BY_WORDS[verification.by]}` : ""}${onDay(item.verified_at)}.`;
    case "planted":
      return `${allPlanted(planted)}${simulated ? " in a simulation" : ""}${onDay(item.planted_at)}, not verified yet.`;
    case "registered":
      if (item.timeline === null) {
        return "An earlier system arranged the planting. There is no evidence here.";
      }
      return simulated
        ? "Planting has not been simulated yet."
        : "Not planted yet. Planting and verification take months.";
  }
};

const explainRefund = ({ registered, refunded }: RegistrationJson): string | null => {
  if (refunded === 0) {
    return null;
  }
  if (refunded < registered) {
    return `${formatNumber(refunded)} refunded, ${formatNumber(registered - refunded)} left.`;
  }
  return refunded === 1 ? "Refunded." : `All ${formatNumber(refunded)} refunded.`;
};

const STEPS = {
  registered: "Registered",
  funds_distributed: "Ordered",
  allocated: "Site assigned",
  planted: "Planted",
  planted_and_verified: "Verified",
} satisfies Record<NonNullable<RegistrationJson["timeline"]>[number]["event"], string>;

/** Renders the steps of the trees so far; null for records that are not planted here. */
const renderTimeline = ({ timeline, state }: RegistrationJson): Markup | null =>
  timeline === null || state === "refunded"
    ? null
    : html`<ol class="timeline">
        ${timeline.map(
          ({ event, at }) =>
            html`<li class="${at === null ? "pending" : "reached"}">
              <b>${STEPS[event]}</b>
              ${at === null ? "pending" : html`<time datetime="${at}">${formatDay(at)}</time>`}
            </li>`,
        )}
      </ol>`;

const renderFact = (term: string, text: string | Markup | null): Markup | null =>
  text === null
    ? null
    : html`<dt>${term}</dt>
        <dd>${text}</dd>`;

const renderRegistration = (item: RegistrationJson): Markup => {
  const { type, registered, project, verification } = item;
  return html`${renderTimeline(item)}
    <dl>
      ${renderFact("Registered", `${formatNumber(registered)} ${nameUnits(type, registered)}${onDay(item.registered_at)}`)}
      ${renderFact("Refunded", explainRefund(item))}
      ${renderFact(item.simulated ? "Simulated" : "Proven", explainProof(item))}
      ${
        verification &&
        renderFact(
          "Verified by",
          html`<bdi>${verification.verifier}</bdi> ·
            <a href="${verification.document_url}" rel="noopener noreferrer">Document</a>`,
        )
      }
      ${project && renderFact("Project", html`<bdi>${project.name}</bdi>, ${project.region}, ${project.country}`)}
      ${verification && renderFact("Species", html`<i>${listSpecies(verification.species)}</i>`)}
      ${renderFact("Planting partner", type === "trees" ? item.partner : null)}
    </dl>`;
};

const renderDonation = ({ amount_cents: cents, charity, ...item }: DonationJson): Markup => {
  const isRefunded = item.state === "refunded";
  const charityProof = charity.looked_up
    ? "The charity was looked up when the donation was recorded."
    : "An earlier system recorded the donation and named the charity.";
  return html`<dl>
    ${renderFact("Registered", html`${formatCents(cents)} to <bdi>${charity.name}</bdi>${onDay(item.registered_at)}`)}
    ${renderFact("Refunded", isRefunded ? `${item.refunded_at === null ? "Refunded" : `On ${formatDay(item.refunded_at)}`}.` : null)}
    ${renderFact("Proven", isRefunded ? NOTHING_LEFT : `${charityProof} There is no evidence of the payment here.`)}
  </dl>`;
};

/** Renders where the trees are planted: a point for each site, which links to the first record there. */
const renderPlace = (items: readonly ItemJson[], root: string): Markup | null => {
  const points = new Map<string, MapPoint>();
  for (const [index, item] of items.entries()) {
    if (item.type === "donation" || item.project === null) {
      continue;
    }
    const { name, country } = item.project;
    const site = JSON.stringify(item.project);
    const earlier = points.get(site);
    const trees = (earlier?.trees ?? 0) + item.planted;
    points.set(site, {
      ...item.project,
      trees,
      href: earlier?.href ?? `#record-${index + 1}`,
      label: `${name}, ${country}: ${formatNumber(trees)} planted`,
    });
  }
  return points.size === 0
    ? null
    : html`<section class="place" aria-labelledby="place">
        <h2 id="place">Where the trees are planted</h2>
        <div class="sheet">${renderMap([...points.values()], root)}</div>
      </section>`;
};

const findPictured = ({ items }: CertificateJson): RegistrationJson | undefined =>
  items
    .filter((item) => item.type !== "donation")
    .find(({ photo_url: photoUrl }) => photoUrl !== null);

const renderPhoto = (certificate: CertificateJson): Markup | null => {
  const pictured = findPictured(certificate);
  if (pictured === undefined) {
    return null;
  }
  const { project, simulated } = pictured;
  const place = project ? ` from ${project.name}, ${project.country}` : "";
  const takenAt = pictured.verified_at ?? pictured.planted_at;
  const caption = `${simulated ? "Simulated photo" : "Photo"}${place}${takenAt === null ? "" : `, ${formatDay(takenAt)}`}`;
  return html`<figure class="photo">
    <img
      src="${pictured.photo_url}"
      alt="${caption}"
      width="960"
      height="720"
      referrerpolicy="no-referrer"
    />
    <figcaption>${caption}</figcaption>
  </figure>`;
};

const renderHero = (certificate: CertificateJson): Markup => {
  const { number, what, refunds } = headlineOf(certificate);
  return html`<section class="hero sheet award" aria-labelledby="what">
    <div>
      <h2 id="what" class="headline">${renderNumber(number)} <span class="what">${what}</span></h2>
      ${refunds && html`<p>${refunds}</p>`}
      <p class="issue">
        Certificate <b>${certificate.number}</b>, issued
        <time datetime="${certificate.issued_at}">${formatDay(certificate.issued_at)}</time>
      </p>
      ${certificate.test ? renderNotice("Test data.", "Nothing was billed, planted, rescued or given for it.") : null}
      ${certificate.simulated ? renderNotice("Simulation.", "The planting comes from a simulated partner. No trees were planted.") : null}
    </div>
    ${renderPhoto(certificate)}
  </section>`;
};

/** Says in a sentence what is certified. It begins with the words of the notices. */
const describe = (certificate: CertificateJson): string => {
  const { number, what, refunds } = headlineOf(certificate);
  const mark = certificate.test ? "Test data: " : certificate.simulated ? "Simulation: " : "";
  return `${mark}${number} ${what}.${refunds === null ? "" : ` ${refunds}`}`;
};

/** Renders a page that certifies a record or an order: what is registered, and apart from it what is proven. */
export const renderCertificate = (
  certificate: CertificateJson,
  profile: Profile,
  links: PageLinks,
): Rendered => {
  const { name, state, items } = certificate;
  const photo = findPictured(certificate)?.photo_url;
  const kicker = state === "refunded" ? "Refunded certificate" : "Certificate";
  return renderDocument({
    title: `Certificate of ${name}`,
    description: describe(certificate),
    profile,
    links,
    photos: photo ? [photo] : [],
    directives: [UNFRAMED],
    body: html`${renderHeader(profile, { name, kicker, root: links.root })}
      <main>
        ${renderHero(certificate)}
        <section class="certified" aria-label="Details">
          ${items.map(
            (item, index) =>
              html`<div class="sheet" id="record-${index + 1}">
                ${item.type === "donation" ? renderDonation(item) : renderRegistration(item)}
              </div>`,
          )}
        </section>
        ${renderPlace(items, links.root)}
      </main>
      <footer>
        <p class="printed">This page: ${links.pageUrl}</p>
        <p>
          Whoever has this page's URL can read it. It names no customer.
          ${
            certificate.dashboard_url &&
            html`<a href="${certificate.dashboard_url}">All impact of <bdi>${name}</bdi></a
              >.`
          }
        </p>
        <p class="links">Machine-readable: <a href="${links.pagePath}.json">JSON</a>.</p>
      </footer>`,
  });
};
