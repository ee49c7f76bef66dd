import type { Dashboard } from "../../../../../services/dashboard/readDashboard.ts";
import { countSimulated } from "../../simulation.ts";
import { listFigures, NOTHING } from "../figures.ts";
import { formatMeasure, formatNumber, renderNumber } from "../format.ts";
import type { Markup } from "../html.ts";
import { html } from "../html.ts";

const TRACK = 1000;

const shareOf = (trees: number, total: number): number => Math.min(1, trees / total);

const formatShare = (share: number): string =>
  share > 0 && share < 0.01 ? "less than 1%" : `${Math.floor(share * 100)}%`;

const explainVerified = ({ trees }: Dashboard, simulated: number): Markup => {
  const { total, plantedAndVerified, planted } = trees;
  const real = plantedAndVerified - simulated;
  const explain = (count: number, how: string): Markup =>
    html`<b>${formatNumber(count)}</b> planted and ${how}, ${formatShare(shareOf(count, total))} of
      the registered trees`;
  if (plantedAndVerified === 0) {
    return planted === 0
      ? html`Not planted yet. Planting and verification take months.`
      : html`<b>${formatNumber(planted)}</b> planted so far. Verification takes months.`;
  }
  if (simulated === 0) {
    return html`${explain(real, "independently verified")}.`;
  }
  return real === 0
    ? html`${explain(simulated, "verified in a simulation")}.`
    : html`${explain(real, "independently verified")}. Another <b>${formatNumber(simulated)}</b> are
        simulated.`;
};

/** Renders how many of the registered trees are verified: what is promised and what is proven are never one number. */
const renderVerified = (dashboard: Dashboard): Markup | null => {
  const { trees } = dashboard;
  if (trees.total === 0) {
    return null;
  }
  const simulated = countSimulated(dashboard).plantedAndVerified;
  const width = (count: number): number => Math.round(shareOf(count, trees.total) * TRACK);
  const real = width(trees.plantedAndVerified - simulated);
  return html`<div class="verified">
    <svg class="track" viewBox="0 0 ${TRACK} 12" preserveAspectRatio="none" aria-hidden="true">
      <rect class="whole" width="${TRACK}" height="12" />
      <rect class="part" width="${real}" height="12" />
      <rect class="simulated" x="${real}" width="${width(simulated)}" height="12" />
    </svg>
    <p>${explainVerified(dashboard, simulated)}</p>
  </div>`;
};

const renderTile = (number: string, label: string, detail: string | Markup): Markup =>
  html`<div class="sheet tile">
    <h3 class="label">${label}</h3>
    ${renderNumber(number)}
    <p>${detail}</p>
  </div>`;

const capitalize = (given: string): string => given.charAt(0).toUpperCase() + given.slice(1);

/** Renders the headline and what follows from it. */
export const renderHero = (dashboard: Dashboard): Markup => {
  const [headline, ...others] = listFigures(dashboard);
  if (headline === undefined) {
    return html`<section class="hero" aria-label="Impact">
      <p class="lead">${NOTHING} New ones appear here right away.</p>
    </section>`;
  }
  const { projected, sections } = dashboard;
  const tiles = [
    ...others.map(({ number, label, detail }) => renderTile(number, capitalize(label), detail)),
    ...(sections.has("carbon")
      ? [
          renderTile(
            `${formatMeasure(projected.carbonTons)} t`,
            "Projected lifetime carbon",
            html`CO<sub>2</sub> on ${formatMeasure(projected.areaHectares)} ha, from planted trees
              only`,
          ),
        ]
      : []),
  ];
  return html`<section class="hero" aria-labelledby="impact">
    <h2 id="impact" class="headline">
      ${renderNumber(headline.number)} <span class="what">${headline.label}</span>
    </h2>
    <p class="lead">${headline.detail}</p>
    ${renderVerified(dashboard)}
    ${tiles.length === 0 ? null : html`<div class="tiles">${tiles}</div>`}
  </section>`;
};
