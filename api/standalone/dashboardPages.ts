import { readFileSync } from "node:fs";
import { text } from "../../modules/records/fields.rules.ts";
import { pictureOrigin } from "../../modules/planting/fact.rules.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { createDashboardCache, readDashboard } from "../../modules/dashboard/readDashboard.ts";
import { createSlugLookup } from "../../modules/dashboard/getDashboardSlug.ts";
import type { EvidenceContext } from "../../modules/planting/context.ts";
import { drawMonogram, MONOGRAM_PATH } from "../endpoints/charities.ts";
import { pathParameter } from "../http/requestContext.ts";
import type { RequestContext } from "../http/requestContext.ts";
import type { Page } from "../http/createApp.ts";
import { HttpError } from "../http/httpError.ts";
import type { BrowserFallback } from "../http/requestTargets.ts";
import { html, styleElement } from "../pages/html.ts";
import { presentDashboard } from "./presentDashboard.ts";
import { presentShield, renderBadge, renderCard } from "../pages/renderEmbeds.ts";
import { shownUrl } from "../pages/renderPhotos.ts";
import { renderPage } from "../pages/renderPage.ts";
import type { PageLinks } from "../pages/renderPage.ts";
import { createRenderings } from "./createRenderings.ts";
import { certificatePages } from "./certificatePages.ts";
import { logoPage, previewPage } from "./picturePages.ts";
import { hashOf, JSON_TYPE, send, tag } from "../http/taggedResponses.ts";
import type { Rendered, Tagged } from "../http/taggedResponses.ts";
import { allowStyles, IMMUTABLE, OPEN_TO_ALL, openToAll, policy, pictureOf } from "./servePages.ts";
import { drawSimulatedPhoto } from "../pages/drawSimulatedPhoto.ts";
import { brandStyle, CARD_STYLE, PAGE_STYLE } from "../pages/styles.ts";
import { renderWorld } from "../pages/worldMap.ts";

const RENDERED_BYTES = 32 * 1024 * 1024;
const CACHE_CONTROL = "public, max-age=10";
const ONE_DAY = "public, max-age=86400";
const SVG = "image/svg+xml";
const HTML = "text/html; charset=utf-8";

/** Drawn at its first request, because the start of the API does not need it. */
let world: Tagged | undefined;

const ICON = pictureOf(
  SVG,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#1c6b47"/><path fill="#e9f4ec" d="M15 26v-8c-5 0-8-3-8-8 5 0 8 2 9 6 1-5 4-8 9-9 0 6-3 10-8 10.500V26z"/></svg>`,
);

/** May come from an earlier system, so its form is unknown. */
const SLUG = text(200);
const SEED = /^[\w-]{1,120}$/u;

/** The origins of the partner's photos, the only content that pages load from other hosts. */
const photoOrigins = ({ media }: Dashboard): readonly string[] => [
  ...new Set(media.flatMap((medium) => pictureOrigin(shownUrl(medium)) ?? [])),
];

type Rendering = (dashboard: Dashboard, links: PageLinks) => Rendered;

const RENDERINGS = {
  page: (dashboard, links) => ({
    type: HTML,
    body: renderPage(dashboard, links),
    headers: {
      "Content-Security-Policy": policy(
        allowStyles(PAGE_STYLE, brandStyle(dashboard.profile.color)),
        ["img-src 'self'", ...photoOrigins(dashboard)].join(" "),
        "frame-ancestors 'none'",
      ),
    },
  }),
  json: (dashboard, links) => ({
    type: JSON_TYPE,
    body: JSON.stringify(presentDashboard(dashboard, links)),
    headers: OPEN_TO_ALL,
  }),
  shields: (dashboard) => ({
    type: JSON_TYPE,
    body: JSON.stringify(presentShield(dashboard)),
    headers: OPEN_TO_ALL,
  }),
  badge: (dashboard) => ({
    type: SVG,
    body: renderBadge(dashboard),
    headers: { ...OPEN_TO_ALL, "Content-Security-Policy": policy("sandbox") },
  }),
  card: (dashboard, { root }) => ({
    type: HTML,
    body: renderCard(dashboard, root),
    headers: {
      ...OPEN_TO_ALL,
      "Content-Security-Policy": policy(
        allowStyles(CARD_STYLE, brandStyle(dashboard.profile.color)),
        "img-src 'self'",
      ),
    },
  }),
} as const satisfies Record<string, Rendering>;

type Kind = keyof typeof RENDERINGS;

/** How the path of a rendering continues after the slug. */
const SUFFIXES: Readonly<Record<Kind, string>> = {
  page: "",
  json: ".json",
  shields: "/shields.json",
  badge: "/badge.svg",
  card: "/card",
};

/** The ETag leaves out the time of reading, so it changes only with the numbers; therefore it is weak. */
const renderTagged = (render: Rendering, dashboard: Dashboard, links: PageLinks): Tagged =>
  tag(
    render(dashboard, links),
    `W/"${hashOf(render({ ...dashboard, updatedAt: new Date(0) }, links))}"`,
  );

/** The custom element that shows a card on other sites. A later version that is not compatible gets its own path. */
const CARD_ELEMENT = tag({
  type: "text/javascript",
  body: readFileSync(new URL("../pages/embed/impactCard.v1.js", import.meta.url)),
  headers: OPEN_TO_ALL,
});

const NOT_FOUND_STYLE =
  ":root{color-scheme:light dark}body{font:1.1rem/1.5 system-ui,sans-serif;margin:15vh auto;max-width:30rem;padding:0 1.25rem}";

const NOT_FOUND = tag({
  type: "text/html",
  body: html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>No such page</title>
        ${styleElement(NOT_FOUND_STYLE)}
      </head>
      <body>
        <main>
          <h1>No such page</h1>
          <p>There is no page at this URL. Check the link.</p>
        </main>
      </body>
    </html> `.markup,
  headers: { "Content-Security-Policy": policy(allowStyles(NOT_FOUND_STYLE)) },
});

const showNotFound = (ctx: RequestContext): void => {
  send(ctx, NOT_FOUND, "no-store");
  ctx.status = 404;
};

/** For unknown paths below /dashboard and /certificate. */
export const dashboardFallback: BrowserFallback = {
  path: /^\/(?:dashboard|certificate)(?:\/|$)/u,
  run: showNotFound,
};

const linksOf = (publicBaseUrl: string, slug: string): PageLinks => ({
  baseUrl: publicBaseUrl,
  root: new URL(publicBaseUrl).pathname.replace(/\/+$/u, ""),
  pageUrl: `${publicBaseUrl}/dashboard/${slug}`,
});

/** Pages and pictures that need no database. */
const FIXED_PAGES: readonly Page[] = [
  {
    path: "/dashboard/world.svg",
    run: (ctx) => send(ctx, (world ??= pictureOf(SVG, renderWorld())), ONE_DAY),
  },
  { path: "/dashboard/icon.svg", run: (ctx) => send(ctx, ICON, ONE_DAY) },
  {
    path: "/media/simulated/:seed.svg",
    run: (ctx) => {
      const seed = pathParameter(ctx, "seed");
      if (!SEED.test(seed)) {
        throw new HttpError("path_not_found", "failed to find picture");
      }
      send(ctx, pictureOf(SVG, drawSimulatedPhoto(seed)), IMMUTABLE);
    },
  },
  {
    path: MONOGRAM_PATH,
    run: (ctx) => {
      const picture = drawMonogram(pathParameter(ctx, "monogram"));
      if (picture === null) {
        throw new HttpError("path_not_found", "failed to find picture");
      }
      send(ctx, pictureOf(SVG, picture), IMMUTABLE);
    },
  },
  { path: "/embed/v1/impact-card.js", run: (ctx) => send(ctx, CARD_ELEMENT, ONE_DAY) },
];

/** Returns what renders a dashboard, or finds what was rendered from the same data. */
const createRenderer = (publicBaseUrl: () => string) => {
  const render = createRenderings<Dashboard, Tagged>(({ body }) => body.length, {
    maximumBytes: RENDERED_BYTES,
  });
  return (kind: Kind, dashboard: Dashboard): Tagged =>
    render(`${kind}/${dashboard.slug}`, dashboard, () =>
      renderTagged(RENDERINGS[kind], dashboard, linksOf(publicBaseUrl(), dashboard.slug)),
    );
};

/** The public pages and pictures. */
export const dashboardPages = (context: EvidenceContext): readonly Page[] => {
  const { db, clock, planting, publicBaseUrl } = context;
  const dashboards = createDashboardCache(context);
  const render = createRenderer(publicBaseUrl);

  const lookUpWellFormed = createSlugLookup(db);
  const lookUpSlug = (slug: string): Promise<string | null> =>
    SLUG.safeParse(slug).success ? lookUpWellFormed(slug) : Promise.resolve(null);

  const redirect = (ctx: RequestContext, slug: string, suffix: string): void => {
    ctx.status = 301;
    ctx.set("Cache-Control", CACHE_CONTROL);
    ctx.set("Location", `${publicBaseUrl()}/dashboard/${slug}${suffix}`);
  };

  const serve =
    (kind: Kind) =>
    async (ctx: RequestContext): Promise<void> => {
      const slug = pathParameter(ctx, "slug");
      const cached = dashboards.find(slug);
      if (cached) {
        send(ctx, render(kind, cached), CACHE_CONTROL);
        return;
      }
      // Only pages that exist get into the cache, so made-up slugs evict none.
      const dashboardSlug = await lookUpSlug(slug);
      const dashboard = dashboardSlug === slug ? await dashboards.read(slug) : undefined;
      if (dashboard) {
        send(ctx, render(kind, dashboard), CACHE_CONTROL);
      } else if (dashboardSlug !== null && dashboardSlug !== slug) {
        redirect(ctx, dashboardSlug, SUFFIXES[kind]);
      } else if (kind === "page" || kind === "card") {
        showNotFound(ctx);
      } else {
        throw new HttpError("path_not_found", "failed to find dashboard");
      }
    };

  /** The links of the page are relative, so it has no slash at the end. */
  const redirectSlash = async (
    ctx: RequestContext,
    next: () => Promise<unknown>,
  ): Promise<void> => {
    const dashboardSlug = await lookUpSlug(pathParameter(ctx, "slug"));
    if (dashboardSlug === null) {
      await next();
    } else {
      redirect(ctx, dashboardSlug, SUFFIXES.page);
    }
  };

  /** Paths that do not exist here, but may have existed where the slug was imported from, lead to the dashboard. */
  const redirectImported = async (
    ctx: RequestContext,
    next: () => Promise<unknown>,
  ): Promise<void> => {
    const slug = pathParameter(ctx, "slug");
    const dashboardSlug = await lookUpSlug(slug);
    if (dashboardSlug === null || dashboardSlug === slug) {
      await next();
    } else {
      redirect(ctx, dashboardSlug, SUFFIXES.page);
    }
  };

  return [
    ...FIXED_PAGES,
    logoPage(db),
    ...certificatePages({ db, planting, publicBaseUrl, showNotFound }),
    { path: "/dashboard/:slug.json", run: openToAll(serve("json")) },
    { path: "/dashboard/:slug/shields.json", run: openToAll(serve("shields")) },
    { path: "/dashboard/:slug/badge.svg", run: openToAll(serve("badge")) },
    previewPage({
      db,
      lookUpSlug,
      // Not from the cache: the picture is kept for long, and a logo that was replaced meanwhile is gone.
      read: (slug) => readDashboard({ db, clock, planting }, slug),
      redirect,
    }),
    { path: "/dashboard/:slug/card", run: openToAll(serve("card")) },
    { path: "/dashboard/:slug", run: serve("page") },
    { path: "/dashboard/:slug/", run: redirectSlash },
    { path: "/dashboard/:slug/{*rest}", run: redirectImported },
  ];
};
