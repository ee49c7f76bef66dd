import type { Dashboard } from "../../../../services/dashboard/readDashboard.ts";
import { formatNumber } from "./format.ts";
import { html, styleElement } from "./html.ts";
import { renderNumber } from "./format.ts";
import { countSimulated, markSimulated } from "../simulation.ts";
import { brandStyle, CARD_STYLE } from "./styles.ts";

/** Renders a small page for an iframe on another site. */
export const renderCard = (dashboard: Dashboard, root: string): string => {
  const { name, slug, trees, bottles, sections } = dashboard;
  const mark = markSimulated(
    countSimulated(dashboard).plantedAndVerified,
    trees.plantedAndVerified,
  );
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
          <h1>${name}</h1>
          <div>
            ${renderNumber(formatNumber(trees.total))}
            <p>
              trees registered, <b>${formatNumber(trees.plantedAndVerified)}</b> planted and
              verified${mark}
            </p>
          </div>
          <p>
            ${sections.has("bottles") ? `${formatNumber(bottles.total)} ocean-bound bottles rescued.` : null}
            <a href="${root}/dashboard/${slug}" target="_blank" rel="noopener">See the evidence</a>
          </p>
        </main>
      </body>
    </html> `.markup;
};
