import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { countSimulated, markSimulated, listFigures, NOTHING } from "./figures.ts";
import { formatMeasure, formatNumber, renderNumber } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";

const TRACK = 1000;

const shareOf = (trees: number, total: number): number => Math.min(1, trees / total);

/** Rounds down. In floating point, 29 of 100 would be 28%, and the product of a large count is not a safe integer. */
const formatShare = (trees: number, total: number): string => {
  const percent = (BigInt(trees) * 100n) / BigInt(total);
  return trees > 0 && percent === 0n ? "less than 1%" : `${percent > 100n ? 100n : percent}%`;
};

type Simulated = ReturnType<typeof countSimulated>;

const explainVerified = ({ trees }: Dashboard, simulated: Simulated): Markup => {
  const real = trees.plantedAndVerified - simulated.plantedAndVerified;
  const explain = (count: number, how: string): Markup =>
    html`<b>${formatNumber(count)}</b> planted and ${how}, ${formatShare(count, trees.total)} of the
      registered trees.`;
  if (simulated.plantedAndVerified === 0) {
    return explain(real, "independently verified");
  }
  return real === 0
    ? explain(simulated.plantedAndVerified, "verified in a simulation")
    : html`${explain(real, "independently verified")} Another
        <b>${formatNumber(simulated.plantedAndVerified)}</b> are simulated.`;
};

/** Explains what became of the registered trees, of which some are verified, and more are planted. */
const explainPlanted = (dashboard: Dashboard, simulated: Simulated): Markup => {
  const { planted, plantedAndVerified } = dashboard.trees;
  const waiting = planted - plantedAndVerified;
  const mark = markSimulated(simulated.planted - simulated.plantedAndVerified, waiting);
  if (planted === 0) {
    return html`Not planted yet. Planting and verification take months.`;
  }
  if (plantedAndVerified === 0) {
    return html`<b>${formatNumber(planted)}</b> planted so far${mark}. Verification takes months.`;
  }
  return waiting === 0
    ? explainVerified(dashboard, simulated)
    : html`${explainVerified(dashboard, simulated)} Another
        <b>${formatNumber(waiting)}</b>
        ${waiting === 1 ? "is planted and waits" : "are planted and wait"} for verification${mark}.`;
};

/** Renders how many of the registered trees are verified: what is promised and what is proven are never one number. */
const renderVerified = (dashboard: Dashboard): Markup | null => {
  const { trees } = dashboard;
  if (trees.total === 0) {
    return null;
  }
  const simulated = countSimulated(dashboard);
  const position = (count: number): number => Math.round(shareOf(count, trees.total) * TRACK);
  const real = position(trees.plantedAndVerified - simulated.plantedAndVerified);
  const verified = position(trees.plantedAndVerified);
  return html`<div class="verified">
    <svg class="track" viewBox="0 0 ${TRACK} 12" preserveAspectRatio="none" aria-hidden="true">
      <rect class="whole" width="${TRACK}" height="12" />
      <rect class="part" width="${real}" height="12" />
      <rect class="simulated" x="${real}" width="${verified - real}" height="12" />
      <rect
        class="waiting"
        x="${verified}"
        width="${position(trees.planted) - verified}"
        height="12"
      />
    </svg>
    <p>${explainPlanted(dashboard, simulated)}</p>
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
