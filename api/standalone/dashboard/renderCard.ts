import type { Dashboard } from "../../../services/readDashboard.ts";
import { formatNumber } from "./format.ts";
import { html, styleElement } from "./html.ts";
import { CARD_STYLE } from "./styles.ts";

/** A small page to be shown in a frame of another site. */
export const renderCard = ({ name, slug, trees, bottles }: Dashboard, root: string): string =>
  html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${name}: impact</title>
        <meta name="color-scheme" content="light dark" />
        <link rel="icon" href="${root}/dashboard/icon.svg" type="image/svg+xml" />
        ${styleElement(CARD_STYLE)}
      </head>
      <body>
        <main>
          <h1>${name}</h1>
          <div>
            <p class="number">${formatNumber(trees.total)}</p>
            <p>
              trees registered, <b>${formatNumber(trees.plantedAndVerified)}</b> planted and
              verified
            </p>
          </div>
          <p>
            ${formatNumber(bottles.total)} ocean-bound bottles rescued.
            <a href="${root}/dashboard/${slug}" target="_blank" rel="noopener">See the evidence</a>
          </p>
        </main>
      </body>
    </html> `.markup;
