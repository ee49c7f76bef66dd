import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { markVerified, listFigures, NOTHING } from "./figures.ts";
import type { Figure } from "./figures.ts";
import { formatNumber, renderNumber } from "./format.ts";
import type { Markup } from "./html.ts";
import { html, styleElement } from "./html.ts";
import { brandStyle, CARD_STYLE } from "./styles.ts";

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
