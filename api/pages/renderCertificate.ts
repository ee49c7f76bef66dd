import { PLANTED_KIND } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { VERIFIED_BY_WORDS } from "../../modules/dashboard/certificate.rules.ts";
import { PLANTING_STAGES } from "../../modules/planting/order.rules.ts";
import type { PlantingStage } from "../../modules/planting/order.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { absoluteUrl } from "../endpoints/presentTreeEvidence.ts";
import { headlineOf } from "./certificateHeadline.ts";
import { formatDay, formatNumber, listSpecies, nameUnits, renderNumber } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import { isDonation } from "./presentCertificate.ts";
import type {
  CertificateView,
  DonationView,
  ItemView,
  RegistrationView,
} from "./presentCertificate.ts";
import { renderDocument, renderHeader, renderNotice } from "./renderDocument.ts";
import { PAGE_STYLE } from "./styles.ts";
import { renderMap } from "./worldMap.ts";

const onDay = (time: Date | null): string => (time === null ? "" : ` on ${formatDay(time)}`);

const allPlanted = (count: number): string =>
  count === 1 ? "Planted" : `All ${formatNumber(count)} planted`;

/** What is said of kinds without evidence. */
const UNPROVEN = {
  bottle: "Bottles have no evidence for single registrations.",
} satisfies Record<Exclude<Kind, typeof PLANTED_KIND>, string>;

const NOTHING_LEFT = "Nothing: all of it was refunded.";

/** Says what is proven. */
const explainProof = (view: RegistrationView): string => {
  const { item, state, planted, isSimulated, verification } = view;
  if (item.kind !== PLANTED_KIND) {
    return UNPROVEN[item.kind];
  }
  switch (state) {
    case "refunded":
      return NOTHING_LEFT;
    case "planted_and_verified":
      return `${allPlanted(planted)} and verified${verification ? ` ${VERIFIED_BY_WORDS[verification.by]}` : ""}${onDay(verification?.at ?? null)}.`;
    case "planted":
      return `${allPlanted(planted)}${isSimulated ? " in a simulation" : ""}${onDay(view.plantedAt)}, not verified yet.`;
    case "registered":
      if (item.isOrderedElsewhere) {
        return "An earlier system arranged the planting. There is no evidence here.";
      }
      return isSimulated
        ? "Planting has not been simulated yet."
        : "Not planted yet. Planting and verification take months.";
  }
};

const explainRefund = ({ refunded, remaining }: RegistrationView): string =>
  remaining === 0
    ? refunded === 1
      ? "Refunded."
      : `All ${formatNumber(refunded)} refunded.`
    : `${formatNumber(refunded)} refunded, ${formatNumber(remaining)} left.`;

const STEPS: Readonly<Record<PlantingStage, string>> = {
  funds_distributed: "Ordered",
  allocated: "Site assigned",
  planted: "Planted",
  planted_and_verified: "Verified",
};

/** The steps that a page shows before they are reached. Not every partner reports the others. */
const AWAITED: ReadonlySet<PlantingStage> = new Set(["planted", "planted_and_verified"]);

/** Renders the steps of the trees so far; null for records that are not planted here. */
const renderTimeline = ({ item, state }: RegistrationView): Markup | null => {
  if (item.kind !== PLANTED_KIND || item.isOrderedElsewhere || state === "refunded") {
    return null;
  }
  const last = PLANTING_STAGES.findLastIndex((stage) => item.facts[stage] !== undefined);
  const steps = PLANTING_STAGES.flatMap((stage, index) => {
    const at = item.facts[stage]?.occurred_at;
    const isAwaited = index > last && AWAITED.has(stage);
    return at !== undefined || isAwaited
      ? [{ title: STEPS[stage], at: at === undefined ? null : new Date(at) }]
      : [];
  });
  return html`<ol class="timeline">
    ${[{ title: "Registered", at: item.createdAt }, ...steps].map(
      ({ title, at }) =>
        html`<li class="${at === null ? "pending" : "reached"}">
          <b>${title}</b>
          ${at === null ? "pending" : html`<time datetime="${at.toISOString()}">${formatDay(at)}</time>`}
        </li>`,
    )}
  </ol>`;
};

/** A term and what is said about it; nothing if there is nothing to say. */
const renderFact = (term: string, text: string | Markup | null): Markup | null =>
  text === null
    ? null
    : html`<dt>${term}</dt>
        <dd>${text}</dd>`;

const renderRegistration = (view: RegistrationView, root: string): Markup => {
  const { item, site, verification } = view;
  return html`${renderTimeline(view)}
    <dl>
      ${renderFact("Registered", `${formatNumber(view.registered)} ${nameUnits(item.kind, view.registered)} on ${formatDay(item.createdAt)}`)}
      ${renderFact("Refunded", view.refunded === 0 ? null : explainRefund(view))}
      ${renderFact(view.isSimulated ? "Simulated" : "Proven", explainProof(view))}
      ${
        verification &&
        renderFact(
          "Verified by",
          html`<bdi>${verification.verifier}</bdi> ·
            <a href="${absoluteUrl(verification.document, root)}" rel="noopener noreferrer"
              >Document</a
            >`,
        )
      }
      ${site && renderFact("Project", html`<bdi>${site.name}</bdi>, ${site.region}, ${site.country}`)}
      ${verification && renderFact("Species", html`<i>${listSpecies(verification.species)}</i>`)}
      ${renderFact("Planting partner", item.kind === PLANTED_KIND ? item.partnerName : null)}
    </dl>`;
};

const explainCharity = ({ item }: DonationView): string =>
  item.isCharityConfirmed
    ? "The charity was looked up when the donation was recorded."
    : "An earlier system recorded the donation and named the charity.";

const renderDonation = (view: DonationView): Markup => {
  const { item, state } = view;
  return html`<dl>
    ${renderFact("Registered", html`${formatCents(item.amountCents)} to <bdi>${item.charityName}</bdi> on ${formatDay(item.createdAt)}`)}
    ${renderFact("Refunded", item.isRefunded ? `${item.refundedAt === null ? "Refunded" : `On ${formatDay(item.refundedAt)}`}.` : null)}
    ${renderFact("Proven", state === "refunded" ? NOTHING_LEFT : `${explainCharity(view)} There is no evidence of the payment here.`)}
  </dl>`;
};

/** Lists the registrations whose trees are planted somewhere, the first of each site. */
const listPlanted = (items: readonly ItemView[]) => {
  const planted = items.flatMap((view, index) =>
    isDonation(view) || view.site === null ? [] : [{ ...view, site: view.site, index }],
  );
  return [...Map.groupBy(planted, ({ site }) => site.reference).values()];
};

const renderPlace = ({ items, links }: CertificateView): Markup | null => {
  const places = listPlanted(items).flatMap((group) => {
    const [first] = group;
    const trees = group.reduce((sum, { planted }) => sum + planted, 0);
    return first
      ? [
          {
            ...first.site,
            trees,
            href: `#record-${first.index + 1}`,
            label: `${first.site.name}, ${first.site.country}: ${formatNumber(trees)} planted`,
          },
        ]
      : [];
  });
  return places.length === 0
    ? null
    : html`<section class="place" aria-labelledby="place">
        <h2 id="place">Where the trees are planted</h2>
        <div class="sheet">${renderMap(places, links.root)}</div>
      </section>`;
};

/** Renders a photo of the planted trees; null before there is one. */
const renderPhoto = ({ pictured, links }: CertificateView): Markup | null => {
  const { photo = null, site = null, isSimulated = false } = pictured ?? {};
  if (photo === null) {
    return null;
  }
  const place = site ? ` from ${site.name}, ${site.country}` : "";
  const caption = `${isSimulated ? "Simulated photo" : "Photo"}${place}, ${formatDay(photo.takenAt)}`;
  return html`<figure class="photo">
    <img
      src="${absoluteUrl(photo.url, links.root)}"
      alt="${caption}"
      width="960"
      height="720"
      referrerpolicy="no-referrer"
    />
    <figcaption>${caption}</figcaption>
  </figure>`;
};

const renderHero = (view: CertificateView): Markup => {
  const { number, what, refunds } = headlineOf(view);
  const { createdAt } = view.certified;
  return html`<section class="hero sheet award" aria-labelledby="what">
    <div>
      <h2 id="what" class="headline">${renderNumber(number)} <span class="what">${what}</span></h2>
      ${refunds && html`<p>${refunds}</p>`}
      <p class="issue">
        Certificate <b>${view.number}</b>, issued
        <time datetime="${createdAt.toISOString()}">${formatDay(createdAt)}</time>
      </p>
      ${view.isTest ? renderNotice("Test data.", "Nothing was billed, planted, rescued or given for it.") : null}
      ${view.isSimulated ? renderNotice("Simulation.", "The planting comes from a simulated partner. No trees were planted.") : null}
    </div>
    ${renderPhoto(view)}
  </section>`;
};

/** Says in a sentence what is certified. It begins with the words of the notices. */
const describe = (view: CertificateView): string => {
  const { number, what, refunds } = headlineOf(view);
  const mark = view.isTest ? "Test data: " : view.isSimulated ? "Simulation: " : "";
  return `${mark}${number} ${what}.${refunds === null ? "" : ` ${refunds}`}`;
};

/** Renders a page that certifies a record or an order: what is registered, and apart from it what is proven. */
export const renderCertificate = (view: CertificateView): string => {
  const { certified, profile, name, links, state, items } = view;
  const { root, pageUrl } = links;
  return renderDocument({
    title: `Certificate of ${name}`,
    description: describe(view),
    style: PAGE_STYLE,
    profile,
    links,
    isIndexed: false,
    body: html`${renderHeader(profile, { name, kicker: state === "refunded" ? "Refunded certificate" : "Certificate", root })}
      <main>
        ${renderHero(view)}
        <section class="certified" aria-label="Details">
          ${items.map(
            (item, index) =>
              html`<div class="sheet" id="record-${index + 1}">
                ${isDonation(item) ? renderDonation(item) : renderRegistration(item, root)}
              </div>`,
          )}
        </section>
        ${renderPlace(view)}
      </main>
      <footer>
        <p class="printed">This page: ${pageUrl}</p>
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
      </footer>`,
  });
};
