import { absoluteUrl } from "../../../planting/absoluteUrl.ts";
import { IMPACT_FACTORS } from "../../../../domain/planting/impactFactors.ts";
import { formatCents } from "../../../../domain/money.ts";
import type { Dashboard } from "../../../../services/dashboard/readDashboard.ts";
import { formatDay, formatTime, formatMeasure, formatMonth, formatNumber } from "./format.ts";
import type { Markup } from "./html.ts";
import { html, styleElement } from "./html.ts";
import { renderMonthChart } from "./renderMonthChart.ts";
import { renderNumber } from "./format.ts";
import { isSimulated } from "../../../../domain/planting/order.ts";
import { countSimulated, markSimulated } from "../simulation.ts";
import { PAGE_STYLE } from "./styles.ts";
import { renderMap } from "./worldMap.ts";

const TRACK = 1000;

/** Returns the shares of registered trees that are verified, real and simulated. */
const sharesOf = (dashboard: Dashboard): { readonly real: number; readonly simulated: number } => {
  const { total, plantedAndVerified } = dashboard.trees;
  const simulated = countSimulated(dashboard).plantedAndVerified;
  const shareOf = (trees: number): number => (total === 0 ? 0 : Math.min(1, trees / total));
  return { real: shareOf(plantedAndVerified - simulated), simulated: shareOf(simulated) };
};

const formatShare = (value: number): string =>
  value > 0 && value < 0.01 ? "less than 1%" : `${Math.floor(value * 100)}%`;

const explainShares = (dashboard: Dashboard): string => {
  if (dashboard.trees.total === 0) {
    return "No trees have been registered yet.";
  }
  const { real, simulated } = sharesOf(dashboard);
  const verified = `${formatShare(real)} of the registered trees are planted and independently verified.`;
  if (simulated === 0) {
    return verified;
  }
  return real === 0
    ? `${formatShare(simulated)} of the registered trees are planted and verified in a simulation: no trees were planted for them.`
    : `${verified} Another ${formatShare(simulated)} are simulated: no trees were planted for them.`;
};

const renderTrees = (dashboard: Dashboard): Markup => {
  const { trees } = dashboard;
  const { real, simulated } = sharesOf(dashboard);
  const simulatedTrees = countSimulated(dashboard);
  const verifiedMark = markSimulated(simulatedTrees.plantedAndVerified, trees.plantedAndVerified);
  const plantedMark = markSimulated(simulatedTrees.planted, trees.planted);
  const part = Math.round(real * TRACK);
  return html`<div class="sheet fact trees">
    <div class="pair">
      <div>
        <h2 class="label">Trees registered</h2>
        ${renderNumber(formatNumber(trees.total))}
        <p>${formatNumber(trees.month)} this month</p>
      </div>
      <div class="proven">
        <h2 class="label">Planted and verified${verifiedMark}</h2>
        ${renderNumber(formatNumber(trees.plantedAndVerified))}
        <p>${formatNumber(trees.planted)} planted so far${plantedMark}</p>
      </div>
    </div>
    <svg class="track" viewBox="0 0 ${TRACK} 12" preserveAspectRatio="none" aria-hidden="true">
      <rect class="whole" width="${TRACK}" height="12" />
      <rect class="part" width="${part}" height="12" />
      <rect class="simulated" x="${part}" width="${Math.round(simulated * TRACK)}" height="12" />
    </svg>
    <p>${explainShares(dashboard)}</p>
  </div>`;
};

const renderFacts = (dashboard: Dashboard): Markup => {
  const { bottles, donations, projected, trees } = dashboard;
  const plantedMark = markSimulated(countSimulated(dashboard).planted, trees.planted);
  return html`<section class="facts" aria-label="Totals">
    ${renderTrees(dashboard)}
    <div class="sheet fact">
      <h2 class="label">Ocean-bound bottles rescued</h2>
      ${renderNumber(formatNumber(bottles.total))}
      <p>${formatNumber(bottles.month)} this month</p>
    </div>
    <div class="sheet fact">
      <h2 class="label">Donated to charities</h2>
      ${renderNumber(formatCents(donations.amountCents))}
      <p>in ${formatNumber(donations.count)} ${donations.count === 1 ? "donation" : "donations"}</p>
    </div>
    <div class="sheet fact">
      <h2 class="label">Projected lifetime carbon</h2>
      ${renderNumber(`${formatMeasure(projected.carbonTons)} t`)}
      <p>
        CO<sub>2</sub> on ${formatMeasure(projected.areaHectares)} ha, from planted trees
        only${plantedMark}
      </p>
    </div>
  </section>`;
};

const renderMonths = ({ months }: Dashboard): Markup =>
  html`<section aria-labelledby="months">
    <h2 id="months">Month by month</h2>
    <div class="sheet">
      ${renderMonthChart("Trees registered", "trees", months)}
      ${renderMonthChart("Bottles rescued", "bottles", months)}
      <details>
        <summary>Show as a table</summary>
        <div class="scroll" tabindex="0" role="region" aria-label="Trees and bottles by month">
          <table>
            <caption>
              Registered per calendar month (UTC), without refunds
            </caption>
            <thead>
              <tr>
                <th scope="col">Month</th>
                <th scope="col" class="count">Trees</th>
                <th scope="col" class="count">Bottles</th>
              </tr>
            </thead>
            <tbody>
              ${months.map(
                ({ month, trees, bottles }) =>
                  html`<tr>
                    <th scope="row">${formatMonth(month)}</th>
                    <td class="count">${formatNumber(trees)}</td>
                    <td class="count">${formatNumber(bottles)}</td>
                  </tr>`,
              )}
            </tbody>
          </table>
        </div>
      </details>
    </div>
  </section>`;

const renderSites = ({ sites }: Dashboard, base: string): Markup =>
  html`<section aria-labelledby="sites">
    <h2 id="sites">Planting sites</h2>
    <div class="sheet">
      ${renderMap(sites, `${base}/world.svg`)}
      ${
        sites.length === 0
          ? html`<p>
              No trees have been planted yet. Sites appear here when the planting partner reports
              them.
            </p>`
          : html`<ul class="sites">
              ${sites.map(
                (site) =>
                  html`<li>
                    <div>
                      ${site.name}<span
                        >${site.region}, ${site.country} · ${site.organizationName}</span
                      >
                    </div>
                    <b>${formatNumber(site.planted)} trees</b>
                  </li>`,
              )}
            </ul>`
      }
    </div>
  </section>`;

const renderMedium = (medium: Dashboard["media"][number], root: string): Markup =>
  html`<li>
    <a href="${absoluteUrl(medium.url, root)}" rel="noopener noreferrer"
      ><img
        src="${absoluteUrl(medium.thumbnailUrl, root)}"
        alt="${isSimulated(medium.partner) ? "Simulated: " : null}${medium.type === "video" ? "Video still" : "Photo"} from the planting at ${medium.siteName}, ${medium.country}, ${formatDay(medium.takenAt)}"
        width="480"
        height="360"
        loading="lazy"
        decoding="async"
        referrerpolicy="no-referrer"
    /></a>
    <p>
      ${medium.siteName}<span
        >${medium.country},
        ${formatDay(medium.takenAt)}${isSimulated(medium.partner) ? " · simulated" : null}</span
      >
    </p>
  </li>`;

const renderEvidence = ({ media }: Dashboard, root: string): Markup =>
  html`<section aria-labelledby="evidence">
    <h2 id="evidence">Latest evidence</h2>
    ${
      media.length === 0
        ? html`<div class="sheet">
            <p>Photos from the field appear here when trees have been planted.</p>
          </div>`
        : html`<ul class="photos">
            ${media.map((medium) => renderMedium(medium, root))}
          </ul>`
    }
  </section>`;

const renderMethod = ({ sites }: Dashboard): Markup => {
  const used = new Set(sites.map(({ factorId }) => factorId));
  const factors = IMPACT_FACTORS.filter(({ id }) => used.size === 0 || used.has(id));
  return html`<section aria-labelledby="method">
    <h2 id="method">How these numbers are calculated</h2>
    <div class="sheet">
      <dl>
        <dt>Registered</dt>
        <dd>
          Every tree and bottle registered for this organization. A refund lowers the total and the
          month of the registration. Months are in UTC.
        </dd>
        <dt>Planted</dt>
        <dd>Trees that the planting partner has reported as planted.</dd>
        <dt>Planted and verified</dt>
        <dd>
          Planted trees that an independent assessor has verified on site. Planting and verification
          take months, so this number follows the registered one with a delay.
        </dd>
        <dt>Projected carbon and area</dt>
        <dd>
          Planted trees multiplied by the factors below: a projection over the lifetime of a tree,
          neither a measurement nor a carbon credit.
        </dd>
      </dl>
      <div class="scroll" tabindex="0" role="region" aria-label="Impact factors">
        <table>
          <caption>
            Impact factors in use
          </caption>
          <thead>
            <tr>
              <th scope="col">Forest</th>
              <th scope="col" class="count">kg CO<sub>2</sub> per tree</th>
              <th scope="col" class="count">Trees per ha</th>
              <th scope="col" class="count">Years</th>
            </tr>
          </thead>
          <tbody>
            ${factors.map(
              (factor) =>
                html`<tr>
                  <th scope="row">
                    ${factor.forestType} (<a href="${factor.source.url}" rel="noopener noreferrer"
                      >${factor.source.title}</a
                    >)
                  </th>
                  <td class="count">${formatNumber(factor.kgCo2PerTree)}</td>
                  <td class="count">${formatNumber(factor.treesPerHectare)}</td>
                  <td class="count">${factor.horizonYears}</td>
                </tr>`,
            )}
          </tbody>
        </table>
      </div>
    </div>
  </section>`;
};

const renderNotice = ({ sites, media }: Dashboard): Markup | null => {
  const simulated = [...sites, ...media].filter(({ partner }) => isSimulated(partner));
  if (simulated.length === 0) {
    return null;
  }
  const shown =
    simulated.length === sites.length + media.length
      ? "The sites, photos and milestones on this page come"
      : "Items marked as simulated on this page come";
  return html`<p class="notice" role="note">
    <strong>Simulated evidence.</strong> ${shown} from a simulated planting partner. No trees were
    planted for them.
  </p>`;
};

/** Renders the public page of an account, which needs no script. */
export const renderPage = (dashboard: Dashboard, root: string): string => {
  const base = `${root}/dashboard`;
  const { name, slug, updatedAt, trees } = dashboard;
  const mark = markSimulated(
    countSimulated(dashboard).plantedAndVerified,
    trees.plantedAndVerified,
  );
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${name}: public impact record</title>
        <meta
          name="description"
          content="${name}: ${formatNumber(trees.total)} trees registered, ${formatNumber(trees.plantedAndVerified)} of them planted and verified${mark}."
        />
        <meta name="color-scheme" content="light dark" />
        <link rel="icon" href="${base}/icon.svg" type="image/svg+xml" />
        <link rel="alternate" type="application/json" href="${base}/${slug}.json" />
        ${styleElement(PAGE_STYLE)}
      </head>
      <body>
        <a class="skip" href="#content">Skip to content</a>
        <header>
          <p class="kicker">Public impact record</p>
          <h1>${name}</h1>
          <p class="lead">
            Registered trees, ocean-bound bottles and donations, with planting evidence.
          </p>
        </header>
        <main id="content">
          ${renderNotice(dashboard)} ${renderFacts(dashboard)} ${renderMonths(dashboard)}
          ${renderSites(dashboard, base)} ${renderEvidence(dashboard, root)}
          ${renderMethod(dashboard)}
        </main>
        <footer>
          <p>
            As of <time datetime="${updatedAt.toISOString()}">${formatTime(updatedAt)}</time>. Test
            data is not included.
          </p>
          <p>
            Machine-readable: <a href="${base}/${slug}.json">JSON</a>. For your own site:
            <a href="${base}/${slug}/badge.svg">badge</a>, <a href="${base}/${slug}/card">card</a>.
          </p>
        </footer>
      </body>
    </html> `.markup;
};
