import { hash } from "node:crypto";
import type { Profile } from "../../modules/accounts/profile.rules.ts";
import { pictureOrigin } from "../../modules/planting/fact.rules.ts";
import type { Rendered } from "../http/taggedResponses.ts";
import type { Markup } from "./html.ts";
import { html, styleElement } from "./html.ts";
import { brandStyle, PAGE_STYLE } from "./styles.ts";

export type PageLinks = {
  readonly baseUrl: string;
  /** Its path, with which links between pages start. */
  readonly root: string;
  readonly pagePath: string;
  /** The page's own URL, for shared links. */
  readonly pageUrl: string;
};

export const linksOf = (baseUrl: string, path: string): PageLinks => {
  const root = new URL(baseUrl).pathname.replace(/\/+$/u, "");
  return { baseUrl, root, pagePath: root + path, pageUrl: baseUrl + path };
};

type Document = {
  readonly title: string;
  /** Says in a sentence what the page shows, for search engines and previews of the link. */
  readonly description?: string;
  readonly style?: string;
  readonly profile: Profile;
  readonly links: PageLinks;
  /** Whether search engines may list it; false by default. */
  readonly isIndexed?: boolean;
  readonly body: Markup;
  /** The URLs of its photos, which may be on other hosts. */
  readonly photos?: readonly string[];
  /** What its Content-Security-Policy has besides its own styles and pictures. */
  readonly directives?: readonly string[];
};

export const logoUrl = ({ logo }: Profile, base: string): string | null =>
  logo && `${base}/media/logos/${logo.hash}`;

const renderPreview = ({ title, profile, links }: Document, description: string): Markup => {
  const picture = logoUrl(profile, links.baseUrl);
  return html`<meta name="description" content="${description}" />
    <meta property="og:type" content="website" />
    <meta property="og:title" content="${title}" />
    <meta property="og:description" content="${description}" />
    <meta property="og:url" content="${links.pageUrl}" />
    ${picture && html`<meta property="og:image" content="${picture}" />`}
    <link rel="canonical" href="${links.pageUrl}" />
    <link rel="alternate" type="application/json" href="${links.pageUrl}.json" />`;
};

const renderMarkup = (document: Document, style: string): string =>
  html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${document.title}</title>
        <meta name="color-scheme" content="light dark" />
        ${document.isIndexed ? null : html`<meta name="robots" content="noindex, nofollow" />`}
        ${document.description === undefined ? null : renderPreview(document, document.description)}
        <link rel="icon" href="${document.links.root}/dashboard/icon.svg" type="image/svg+xml" />
        ${styleElement(style)} ${styleElement(brandStyle(document.profile.color))}
      </head>
      <body>
        ${document.body}
      </body>
    </html> `.markup;

const hashSource = (style: string): string => `'sha256-${hash("sha256", style, "base64")}'`;

/** Returns a Content-Security-Policy that forbids everything but what the directives allow. */
const contentPolicy = (...directives: readonly string[]): string =>
  ["default-src 'none'", "base-uri 'none'", "form-action 'none'", ...directives].join("; ");

export const SVG = "image/svg+xml";

/** Returns a picture. No browser takes it for anything else. */
export const pictureOf = (type: string, body: string | Buffer): Rendered => ({
  type,
  body,
  headers: { "Content-Security-Policy": contentPolicy("sandbox") },
});

export const UNFRAMED = "frame-ancestors 'none'";

/** Renders a page with its policy, which allows exactly its style sheets, and its photos on other hosts. It needs no script. */
export const renderDocument = (document: Document): Rendered => {
  const { style = PAGE_STYLE, profile, photos = [], directives = [] } = document;
  const origins = new Set(photos.flatMap((url) => pictureOrigin(url) ?? []));
  const policy = contentPolicy(
    `style-src ${hashSource(style)} ${hashSource(brandStyle(profile.color))}`,
    ["img-src 'self'", ...origins].join(" "),
    ...directives,
  );
  return {
    type: "text/html; charset=utf-8",
    body: renderMarkup(document, style),
    headers: { "Content-Security-Policy": policy },
  };
};

const MOST_LOGO_WIDTH = 240;
const MOST_LOGO_HEIGHT = 96;

export const renderHeader = (
  profile: Profile,
  { name, kicker, root }: { readonly name: string; readonly kicker: string; readonly root: string },
): Markup => {
  const { logo, homeUrl } = profile;
  const scale = Math.min(
    1,
    MOST_LOGO_WIDTH / (logo?.width ?? 1),
    MOST_LOGO_HEIGHT / (logo?.height ?? 1),
  );
  const picture =
    logo &&
    html`<img
      class="logo"
      src="${logoUrl(profile, root)}"
      alt="Logo of ${name}"
      width="${Math.round(logo.width * scale)}"
      height="${Math.round(logo.height * scale)}"
    />`;
  const home =
    homeUrl && html`<a class="home" href="${homeUrl}" rel="noopener">${new URL(homeUrl).host}</a>`;
  return html`<header>
    ${picture || home ? html`<div class="brand">${picture} ${home}</div>` : null}
    <p class="kicker">${kicker}</p>
    <h1><bdi>${name}</bdi></h1>
  </header>`;
};

export const renderNotice = (title: string, text: string | Markup): Markup =>
  html`<p class="notice" role="note"><strong>${title}</strong> ${text}</p>`;

/** A term and what is said about it; nothing if there is nothing to say. */
export const renderFact = (term: string, text: string | Markup | null): Markup | null =>
  text === null
    ? null
    : html`<dt>${term}</dt>
        <dd>${text}</dd>`;
