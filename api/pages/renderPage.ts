import { paragraphsOf } from "../../modules/accounts/profile.rules.ts";
import { isSimulated } from "../../modules/planting/order.rules.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { isAllSimulated } from "./figures.ts";
import { formatTime } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import { renderBrand } from "./renderBrand.ts";
import { describePage, renderHead } from "./renderHead.ts";
import { renderHero } from "./renderHero.ts";
import { renderMethod } from "./renderMethod.ts";
import { renderMonths } from "./renderMonths.ts";
import { renderPhotos } from "./renderPhotos.ts";
import { renderProjects } from "./renderProjects.ts";

/** The URLs that a page links to. */
export type PageLinks = {
  /** The public base URL. */
  readonly baseUrl: string;
  /** Its path, with which links between pages start. */
  readonly root: string;
  /** The page's own URL, for previews and shared links. */
  readonly pageUrl: string;
};

/** Returns what is simulated; null if nothing is. */
const explainSimulation = (dashboard: Dashboard): string | null => {
  const { sites, media, trees, isPartnerSimulated } = dashboard;
  if (isAllSimulated(dashboard)) {
    return "All planting on this page comes from a simulated partner: projects, photos and verification. No trees were planted.";
  }
  if ([...sites, ...media].some(({ partner }) => isSimulated(partner))) {
    return "What this page marks as simulated comes from a simulated partner. No trees were planted for it.";
  }
  return isPartnerSimulated && trees.total > 0 && trees.planted === 0
    ? "The planting partner is simulated. It plants no trees."
    : null;
};

/** Says once what is simulated. Items are marked one by one only if others are real. */
const renderNotice = (dashboard: Dashboard): Markup | null => {
  const explanation = explainSimulation(dashboard);
  return explanation === null
    ? null
    : html`<p class="notice" role="note"><strong>Simulation.</strong> ${explanation}</p>`;
};

const renderStory = ({ name, profile }: Dashboard): Markup | null =>
  profile.story === null
    ? null
    : html`<section aria-labelledby="story" class="story">
        <h2 id="story">About <bdi>${name}</bdi></h2>
        ${paragraphsOf(profile.story).map((paragraph) => html`<p dir="auto">${paragraph}</p>`)}
      </section>`;

/** Plain links: the page loads nothing from the sites that it can be shared on. */
const renderShareLinks = (dashboard: Dashboard, pageUrl: string): Markup => {
  const url = encodeURIComponent(pageUrl);
  const text = encodeURIComponent(describePage(dashboard));
  const links = [
    ["Email", `mailto:?subject=${encodeURIComponent(dashboard.name)}&body=${text}%0A${url}`],
    ["LinkedIn", `https://www.linkedin.com/sharing/share-offsite/?url=${url}`],
    ["Facebook", `https://www.facebook.com/sharer/sharer.php?u=${url}`],
    ["X", `https://x.com/intent/post?text=${text}&url=${url}`],
    ["WhatsApp", `https://wa.me/?text=${text}%20${url}`],
  ] as const;
  return html`<nav class="share" aria-label="Share">
    <span>Share this page:</span>
    ${links.map(([name, href]) => html`<a href="${href}" rel="noopener noreferrer nofollow">${name}</a>`)}
  </nav>`;
};

/** Renders the public page of an account, which needs no script. Sections without data are left out. */
export const renderPage = (dashboard: Dashboard, { root, pageUrl }: PageLinks): string => {
  const base = `${root}/dashboard`;
  const { name, slug, updatedAt, sections } = dashboard;
  return html`<!doctype html>
    <html lang="en">
      ${renderHead(dashboard, { base, pageUrl, previewUrl: `${pageUrl}/preview.png` })}
      <body>
        <a class="skip" href="#content">Skip to content</a>
        <header>
          ${renderBrand(dashboard.profile, name, root)}
          <p class="kicker">Public impact record</p>
          <h1><bdi>${name}</bdi></h1>
        </header>
        <main id="content">
          ${renderHero(dashboard)} ${renderNotice(dashboard)} ${renderStory(dashboard)}
          ${sections.has("months") ? renderMonths(dashboard) : null}
          ${sections.has("sites") ? renderProjects(dashboard, base) : null}
          ${sections.has("photos") ? renderPhotos(dashboard, root) : null}
          ${renderMethod(dashboard)}
        </main>
        <footer>
          ${renderShareLinks(dashboard, pageUrl)}
          <p>
            As of <time datetime="${updatedAt.toISOString()}">${formatTime(updatedAt)}</time>. Test
            data is not included.
          </p>
          <p class="printed">This page: ${pageUrl}</p>
          <p class="links">
            Machine-readable: <a href="${base}/${slug}.json">JSON</a>. For your own site:
            <a href="${base}/${slug}/badge.svg">badge</a>, <a href="${base}/${slug}/card">card</a>.
          </p>
        </footer>
      </body>
    </html> `.markup;
};
