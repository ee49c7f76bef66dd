import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { colorsOf, brandStyle, CARD_STYLE } from "./styles.ts";
import { headlineOf, markVerified, listFigures, NOTHING } from "./figures.ts";
import type { Figure } from "./figures.ts";
import { formatNumber, renderNumber } from "./format.ts";
import { html, styleElement } from "./html.ts";
import type { Markup } from "./html.ts";

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

const renderHeadline = (dashboard: Dashboard, { kind, number, label }: Figure): Markup =>
  html`<div>
    ${renderNumber(number)}
    <p>
      ${
        kind === "trees"
          ? html`${label}, <b>${formatNumber(dashboard.trees.plantedAndVerified)}</b> planted and
              verified${markVerified(dashboard)}`
          : label
      }
    </p>
  </div>`;

/** Renders a small page for an iframe on another site. */
export const renderCard = (dashboard: Dashboard, root: string): string => {
  const { name, slug } = dashboard;
  const [headline, second] = listFigures(dashboard);
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${name}: impact</title>
        <meta name="color-scheme" content="light dark" />
        <link rel="icon" href="${root}/dashboard/icon.svg" type="image/svg+xml" />
        ${styleElement(CARD_STYLE)} ${styleElement(brandStyle(dashboard.profile.color))}
      </head>
      <body>
        <main>
          <h1><bdi>${name}</bdi></h1>
          ${headline === undefined ? html`<p>${NOTHING}</p>` : renderHeadline(dashboard, headline)}
          <p>
            ${second === undefined ? null : `${second.number} ${second.label}.`}
            <a href="${root}/dashboard/${slug}" target="_blank" rel="noopener">See the evidence</a>
          </p>
        </main>
      </body>
    </html> `.markup;
};
