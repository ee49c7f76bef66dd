import { paragraphsOf, UNIT_FIELDS } from "../../modules/accounts/profile.rules.ts";
import type { UnitField } from "../../modules/accounts/profile.rules.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { IMPACT_FACTORS } from "../../modules/planting/impactFactors.rules.ts";
import type { Rendered } from "../http/taggedResponses.ts";
import { formatMonth, formatNumber, formatShort, formatTime, renderNumber } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import type { DashboardView, Figure } from "./presentDashboard.ts";
import {
  renderDocument,
  renderFact,
  renderHeader,
  renderNotice,
  UNFRAMED,
} from "./renderDocument.ts";
import { NOTHING } from "./renderEmbeds.ts";
import { renderPhotos, renderProjects, renderVerifications, shownUrl } from "./renderEvidence.ts";

/** The width of the bar in its SVG units. */
const TRACK = 1000;

const part = (name: string, from: number, until: number): Markup =>
  html`<rect class="${name}" x="${from}" width="${until - from}" height="12" />`;

/** Draws how many of the registered trees are verified: what is promised and what is proven are never one number. */
const renderTrack = ({ dashboard: { trees, isSimulated } }: DashboardView): Markup => {
  const position = (count: number): number => Math.round(Math.min(1, count / trees.total) * TRACK);
  const verified = position(trees.plantedAndVerified);
  return html`<svg
    class="track"
    viewBox="0 0 ${TRACK} 12"
    preserveAspectRatio="none"
    aria-hidden="true"
  >
    ${part("whole", 0, TRACK)} ${part(isSimulated ? "simulated" : "part", 0, verified)}
    ${part("waiting", verified, position(trees.planted))}
  </svg>`;
};

const capitalize = (given: string): string => given.charAt(0).toUpperCase() + given.slice(1);

const renderTile = ({ number, label, detail }: Figure): Markup =>
  html`<div class="sheet tile">
    <h3 class="label">${capitalize(label)}</h3>
    ${renderNumber(number)}
    <p>${detail}</p>
  </div>`;

const renderHero = (view: DashboardView): Markup => {
  const { figures, progress, simulation } = view;
  const [headline, ...others] = figures;
  if (headline === undefined) {
    return html`<section class="hero" aria-label="Impact">
      <p class="lead">${NOTHING} New ones appear here right away.</p>
    </section>`;
  }
  return html`<section class="hero" aria-labelledby="impact">
    <h2 id="impact" class="headline">
      ${renderNumber(headline.number)} <span class="what">${headline.label}</span>
    </h2>
    <p class="lead">${headline.detail}</p>
    ${
      progress &&
      html`<div class="verified">
        ${renderTrack(view)}
        <p>${progress}</p>
      </div>`
    }
    ${simulation && renderNotice("Simulation.", simulation)}
    ${others.length === 0 ? null : html`<div class="tiles">${others.map(renderTile)}</div>`}
  </section>`;
};

const renderStory = ({ name, profile: { story } }: Dashboard): Markup | null =>
  story === null
    ? null
    : html`<section aria-labelledby="story" class="story">
        <h2 id="story">About <bdi>${name}</bdi></h2>
        ${paragraphsOf(story).map((paragraph) => html`<p dir="auto">${paragraph}</p>`)}
      </section>`;

const TITLES = { trees: "Trees registered", bottles: "Bottles rescued" } as const;

/** Returns the height of a bar in percent of the largest one. A value above zero is always visible. */
const heightOf = (value: number, largest: number): number =>
  value === 0 ? 0 : Math.max(1, Math.round((value / largest) * 100));

/** Renders a bar chart as a list: bars are columns on a desktop and rows on a phone. */
const renderChart = (unit: UnitField, months: Dashboard["months"]): Markup => {
  const largest = Math.max(1, ...months.map((totals) => totals[unit]));
  const sum = months.reduce((running, totals) => running + totals[unit], 0);
  return html`<figure class="chart ${unit}">
    <figcaption><strong>${TITLES[unit]}</strong> ${formatNumber(sum)} in twelve months</figcaption>
    <ol class="bars">
      ${months.map(({ month, [unit]: value }, index) => {
        const year = index === 0 || month.endsWith("-01") ? month.slice(0, 4) : null;
        // The last month is the current one, which is not over.
        const progress = index === months.length - 1 ? " so far" : null;
        return html`<li class="h-${heightOf(value, largest)}">
          <span class="month"
            >${formatMonth(month)} <span class="year">${year}${progress}</span></span
          >
          <span class="column"
            ><span class="value" title="${formatNumber(value)}">${formatShort(value)}</span
            ><span class="bar"></span
          ></span>
        </li>`;
      })}
    </ol>
  </figure>`;
};

/** Renders the units of the last months, without refunds, as a chart for each kind that has any. */
const renderMonths = (months: Dashboard["months"]): Markup =>
  html`<section aria-labelledby="months">
    <h2 id="months">Month by month</h2>
    <div class="sheet">
      ${Object.values(UNIT_FIELDS)
        .filter((unit) => months.some((totals) => totals[unit] > 0))
        .map((unit) => renderChart(unit, months))}
    </div>
  </section>`;

const renderFactor = (factor: (typeof IMPACT_FACTORS)[number]): Markup =>
  html`<dd>
    ${capitalize(factor.forestType)}: ${formatNumber(factor.kgCo2PerTree)} kg CO<sub>2</sub> per
    tree over ${factor.horizonYears} years, ${formatNumber(factor.treesPerHectare)} trees per ha (<a
      href="${factor.source.url}"
      rel="noopener noreferrer"
      >${factor.source.title}</a
    >).
  </dd>`;

const explain = (isShown: boolean, term: string, meaning: string): Markup | null =>
  renderFact(term, isShown ? meaning : null);

/** Says what each number means, and only of numbers that the page has. */
const renderMethod = ({ dashboard, figures }: DashboardView): Markup => {
  const { trees, projected } = dashboard;
  const has = (kind: Figure["kind"]): boolean => figures.some((figure) => figure.kind === kind);
  const named = [
    // An empty page explains trees.
    ...(has("trees") || figures.length === 0 ? ["tree"] : []),
    ...(has("bottles") ? ["bottle"] : []),
  ].join(" and ");
  return html`<section aria-labelledby="method">
    <h2 id="method">How these numbers are calculated</h2>
    <dl class="sheet">
      ${explain(named !== "", "Registered", `Every ${named} registered for this organization. A refund lowers the total and the month of the registration. Months are in UTC.`)}
      ${explain(trees.total > 0, "Planted", "Trees that the planting partner has reported as planted.")}
      ${explain(trees.total > 0, "Planted and verified", "Planted trees that were verified on site. This page names who verified them: the planting partner, or a third party, which is an organization that did not plant them. Planting and verification take months, so this number follows the registered one with a delay.")}
      ${explain(has("bottles"), "Rescued bottles", "The registered bottles. There is no evidence for single registrations.")}
      ${explain(has("donations"), "Donated", "Donations recorded for this organization, in US dollars, without refunded ones. There is no evidence of the payments here.")}
      ${explain(has("carbon"), "Projected carbon and area", "Planted trees multiplied by the factors below: a projection over the lifetime of a tree, neither a measurement nor a carbon credit.")}
      ${projected && IMPACT_FACTORS.filter(({ id }) => projected.factorIds.has(id)).map(renderFactor)}
    </dl>
  </section>`;
};

/** Plain links: the page loads nothing from the sites that it can be shared on. */
const renderShareLinks = ({ dashboard, links, summary }: DashboardView): Markup => {
  const url = encodeURIComponent(links.pageUrl);
  const text = encodeURIComponent(summary);
  const targets = {
    Email: `mailto:?subject=${encodeURIComponent(dashboard.name)}&body=${text}%0A${url}`,
    LinkedIn: `https://www.linkedin.com/sharing/share-offsite/?url=${url}`,
    Facebook: `https://www.facebook.com/sharer/sharer.php?u=${url}`,
    X: `https://x.com/intent/post?text=${text}&url=${url}`,
    WhatsApp: `https://wa.me/?text=${text}%20${url}`,
  };
  return html`<p class="share">
    Share this page:
    ${Object.entries(targets).map(([site, href]) => html`<a href="${href}" rel="noopener noreferrer nofollow">${site}</a>`)}
  </p>`;
};

/** Renders the public page of an account. Sections without data are left out. */
export const renderPage = (view: DashboardView): Rendered => {
  const { dashboard, links } = view;
  const { name, updatedAt, profile, months, sites, media } = dashboard;
  return renderDocument({
    title: `${name}: public impact record`,
    description: view.summary,
    profile,
    links,
    isIndexed: true,
    photos: media.map(shownUrl),
    directives: [UNFRAMED],
    body: html`<a class="skip" href="#content">Skip to content</a>
      ${renderHeader(profile, { name, kicker: "Public impact record", root: links.root })}
      <main id="content">
        ${renderHero(view)} ${renderStory(dashboard)}
        ${months.length > 0 ? renderMonths(months) : null}
        ${sites.length > 0 ? renderProjects(view) : null} ${renderVerifications(view)}
        ${media.length > 0 ? renderPhotos(view) : null} ${renderMethod(view)}
      </main>
      <footer>
        ${renderShareLinks(view)}
        <p>
          As of <time datetime="${updatedAt.toISOString()}">${formatTime(updatedAt)}</time>. Test
          data is not included.
        </p>
        <p class="printed">This page: ${links.pageUrl}</p>
        <p class="links">
          Machine-readable: <a href="${links.pagePath}.json">JSON</a>. For your own site:
          <a href="${links.pagePath}/badge.svg">badge</a>,
          <a href="${links.pagePath}/card">card</a>.
        </p>
      </footer>`,
  });
};
