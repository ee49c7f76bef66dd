import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { markVerified, headlineOf } from "./figures.ts";
import { formatNumber } from "./format.ts";
import type { Markup } from "./html.ts";
import { html, styleElement } from "./html.ts";
import { PREVIEW_HEIGHT, PREVIEW_WIDTH } from "./preview.ts";
import { brandStyle, PAGE_STYLE } from "./styles.ts";

/** Says in a sentence what the page shows, for search engines and previews of the link. */
export const describePage = (dashboard: Dashboard): string => {
  const { name, trees } = dashboard;
  const headline = headlineOf(dashboard);
  if (headline === null) {
    return `${name}: public impact record.`;
  }
  const verified =
    trees.total === 0
      ? ""
      : `, ${formatNumber(trees.plantedAndVerified)} of them planted and verified${markVerified(dashboard)}`;
  return `${name}: ${headline.number} ${headline.label}${verified}.`;
};

export const renderHead = (
  dashboard: Dashboard,
  { base, pageUrl, previewUrl }: { base: string; pageUrl: string; previewUrl: string },
): Markup => {
  const { name, slug, profile } = dashboard;
  const title = `${name}: public impact record`;
  const description = describePage(dashboard);
  return html`<head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>${title}</title>
    <meta name="description" content="${description}" />
    <meta name="color-scheme" content="light dark" />
    <link rel="canonical" href="${pageUrl}" />
    <meta property="og:type" content="website" />
    <meta property="og:title" content="${title}" />
    <meta property="og:description" content="${description}" />
    <meta property="og:url" content="${pageUrl}" />
    <meta property="og:image" content="${previewUrl}" />
    <meta property="og:image:type" content="image/png" />
    <meta property="og:image:width" content="${PREVIEW_WIDTH}" />
    <meta property="og:image:height" content="${PREVIEW_HEIGHT}" />
    <meta property="og:image:alt" content="${description}" />
    <meta name="twitter:card" content="summary_large_image" />
    <link rel="icon" href="${base}/icon.svg" type="image/svg+xml" />
    <link rel="alternate" type="application/json" href="${base}/${slug}.json" />
    ${styleElement(PAGE_STYLE)} ${styleElement(brandStyle(profile.color))}
  </head>`;
};
