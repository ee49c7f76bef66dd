import { html } from "./html.ts";
import { renderNumber } from "./format.ts";
import type { DashboardView } from "./presentDashboard.ts";
import type { Rendered } from "../http/taggedResponses.ts";
import { pictureOf, renderDocument, SVG } from "./renderDocument.ts";
import { CARD_STYLE } from "./styles.ts";

/** The width of an average letter. The font depends on the viewer; `textLength` makes the text fit. */
const LETTER = 6.6;
const PADDING = 9;

const widthOf = (text: string): number => Math.round(text.length * LETTER) + 2 * PADDING;

const NO_TREES = { number: "0", label: "trees registered", proof: "0 planted and verified" };

/** Renders a picture for other sites: the headline, and how many of the trees are verified. */
export const renderBadge = (view: DashboardView): Rendered => {
  const { number, label, proof } = view.figures[0] ?? NO_TREES;
  const value = proof === null ? number : `${number} · ${proof.replace("planted and ", "")}`;
  const meaning = `${view.dashboard.name}: ${number} ${label}${proof === null ? "" : `, ${proof}`}`;
  const left = widthOf(label);
  const right = widthOf(value);
  const { markup } = html`<svg
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
      <rect x="${left}" width="${right}" height="26" fill="${view.colors.light}" />
    </g>
    <g fill="#fff" font-family="system-ui,-apple-system,Segoe UI,Roboto,sans-serif" font-size="12">
      <text x="${PADDING}" y="17" textLength="${left - 2 * PADDING}">${label}</text>
      <text x="${left + PADDING}" y="17" textLength="${right - 2 * PADDING}" font-weight="600">
        ${value}
      </text>
    </g>
  </svg> `;
  return pictureOf(SVG, markup);
};

/** What formats say without data. What was refunded or is hidden may have been registered, so it is about trees only. */
export const NOTHING = "No trees are registered at the moment.";

/** Renders a small page for an iframe on another site. */
export const renderCard = ({ dashboard, figures, links }: DashboardView): Rendered => {
  const { name, profile } = dashboard;
  const [headline, second] = figures.filter(({ kind }) => kind !== "carbon");
  const renderedHeadline = headline
    ? html`<div>
        ${renderNumber(headline.number)}
        <p>${headline.label}${headline.proof && `, ${headline.proof}`}</p>
      </div>`
    : html`<p>${NOTHING}</p>`;
  return renderDocument({
    title: `${name}: impact`,
    style: CARD_STYLE,
    profile,
    links,
    isIndexed: true,
    body: html`<main>
      <h1><bdi>${name}</bdi></h1>
      ${renderedHeadline}
      <p>
        ${second ? `${second.number} ${second.label}.` : null}
        <a href="${links.pagePath}" target="_blank" rel="noopener">See the evidence</a>
      </p>
    </main>`,
  });
};
