import type { Dashboard } from "../../../../services/dashboard/readDashboard.ts";
import { colorsOf } from "./styles.ts";
import { formatNumber } from "./format.ts";
import { html } from "./html.ts";
import { countSimulated, markSimulated } from "../simulation.ts";

const LABEL = "trees registered";
/** The width of an average letter. The font depends on the viewer; `textLength` makes the text fit. */
const LETTER = 6.6;
const PADDING = 9;

const widthOf = (text: string): number => Math.round(text.length * LETTER) + 2 * PADDING;

const markOf = (dashboard: Dashboard): string =>
  markSimulated(countSimulated(dashboard).plantedAndVerified, dashboard.trees.plantedAndVerified);

const valueOf = (dashboard: Dashboard): string =>
  `${formatNumber(dashboard.trees.total)} · ${formatNumber(dashboard.trees.plantedAndVerified)} verified${markOf(dashboard)}`;

/** Returns the badge's content in the schema of shields.io, which draws badges in the style of other projects. */
export const presentShield = (dashboard: Dashboard) => ({
  schemaVersion: 1,
  label: LABEL,
  message: valueOf(dashboard),
  color: colorsOf(dashboard.profile.color).light.slice(1),
  // shields.io accepts no shorter time.
  cacheSeconds: 300,
});

/** Renders a picture for other sites: registered trees, and how many of them are verified. */
export const renderBadge = (dashboard: Dashboard): string => {
  const { name, trees } = dashboard;
  const mark = markOf(dashboard);
  const value = valueOf(dashboard);
  const left = widthOf(LABEL);
  const right = widthOf(value);
  const meaning = `${name}: ${formatNumber(trees.total)} trees registered, ${formatNumber(trees.plantedAndVerified)} planted and verified${mark}`;
  return html`<svg
    xmlns="http://www.w3.org/2000/svg"
    width="${left + right}"
    height="26"
    role="img"
    aria-label="${meaning}"
  >
    <title>${meaning}</title>
    <clipPath id="shape"><rect width="${left + right}" height="26" rx="5" /></clipPath>
    <g clip-path="url(#shape)">
      <rect width="${left}" height="26" fill="#22332a" />
      <rect x="${left}" width="${right}" height="26" fill="#1c6b47" />
    </g>
    <g fill="#fff" font-family="system-ui,-apple-system,Segoe UI,Roboto,sans-serif" font-size="12">
      <text x="${PADDING}" y="17" textLength="${left - 2 * PADDING}">${LABEL}</text>
      <text x="${left + PADDING}" y="17" textLength="${right - 2 * PADDING}" font-weight="600">
        ${value}
      </text>
    </g>
  </svg> `.markup;
};
