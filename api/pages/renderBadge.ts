import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { colorsOf } from "./styles.ts";
import { headlineOf, markVerified } from "./figures.ts";
import type { Figure } from "./figures.ts";
import { formatNumber } from "./format.ts";
import { html } from "./html.ts";

/** The width of an average letter. The font depends on the viewer; `textLength` makes the text fit. */
const LETTER = 6.6;
const PADDING = 9;

const widthOf = (text: string): number => Math.round(text.length * LETTER) + 2 * PADDING;

/** Without data, the badge has zero trees. */
const NO_TREES: Pick<Figure, "kind" | "number" | "label"> = {
  kind: "trees",
  number: "0",
  label: "trees registered",
};

/** Returns the texts of the badge: its two parts, and a sentence for those who cannot see it. */
const textsOf = (dashboard: Dashboard) => {
  const { kind, number, label } = headlineOf(dashboard) ?? NO_TREES;
  if (kind !== "trees") {
    return { label, value: number, meaning: `${number} ${label}` };
  }
  const verified = formatNumber(dashboard.trees.plantedAndVerified);
  const mark = markVerified(dashboard);
  return {
    label,
    value: `${number} · ${verified} verified${mark}`,
    meaning: `${number} ${label}, ${verified} planted and verified${mark}`,
  };
};

/** Returns the badge's content in the schema of shields.io, which draws badges in the style of other projects. */
export const presentShield = (dashboard: Dashboard) => {
  const { label, value } = textsOf(dashboard);
  return {
    schemaVersion: 1,
    label,
    message: value,
    color: colorsOf(dashboard.profile.color).light.slice(1),
    // shields.io accepts no shorter time.
    cacheSeconds: 300,
  };
};

/** Renders a picture for other sites: the headline, and how many of the trees are verified. */
export const renderBadge = (dashboard: Dashboard): string => {
  const texts = textsOf(dashboard);
  const left = widthOf(texts.label);
  const right = widthOf(texts.value);
  const meaning = `${dashboard.name}: ${texts.meaning}`;
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
      <rect
        x="${left}"
        width="${right}"
        height="26"
        fill="${colorsOf(dashboard.profile.color).light}"
      />
    </g>
    <g fill="#fff" font-family="system-ui,-apple-system,Segoe UI,Roboto,sans-serif" font-size="12">
      <text x="${PADDING}" y="17" textLength="${left - 2 * PADDING}">${texts.label}</text>
      <text x="${left + PADDING}" y="17" textLength="${right - 2 * PADDING}" font-weight="600">
        ${texts.value}
      </text>
    </g>
  </svg> `.markup;
};
