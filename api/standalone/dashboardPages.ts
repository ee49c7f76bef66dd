import { text } from "../../modules/records/fields.rules.ts";
import { readDashboard } from "../../modules/dashboard/readDashboard.ts";
import { createSlugLookup } from "../../modules/dashboard/getDashboardSlug.ts";
import { DEFAULT_PROFILE } from "../../modules/accounts/profile.rules.ts";
import type { EvidenceContext } from "../../modules/planting/context.ts";
import { pathParameter } from "../http/requestContext.ts";
import type { RequestContext } from "../http/requestContext.ts";
import type { Page } from "../http/createApp.ts";
import { HttpError } from "../http/httpError.ts";
import type { BrowserFallback } from "../http/requestTargets.ts";
import { hashOf, JSON_TYPE, send, tag } from "../http/taggedResponses.ts";
import type { Rendered, Tagged } from "../http/taggedResponses.ts";
import { html } from "../pages/html.ts";
import { presentDashboard, viewDashboard } from "../pages/presentDashboard.ts";
import type { DashboardView } from "../pages/presentDashboard.ts";
import { contentPolicy, documentPolicy, linksOf, renderDocument } from "../pages/renderDocument.ts";
import { renderBadge, renderCard } from "../pages/renderEmbeds.ts";
import { shownUrl } from "../pages/renderEvidence.ts";
import { renderPage } from "../pages/renderPage.ts";
import { CARD_STYLE, PAGE_STYLE } from "../pages/styles.ts";
import { certificatePages } from "./certificatePages.ts";
import { picturePages } from "./picturePages.ts";
import { CACHE_CONTROL, createPageCache, OPEN_TO_ALL, openToAll } from "./servePages.ts";
import type { Formats } from "./servePages.ts";

const HTML = "text/html; charset=utf-8";

/** May come from an earlier system, so its form is unknown. */
const SLUG = text(200);

/** How the paths of the formats continue after the slug. */
const SUFFIXES = {
  page: "",
  json: ".json",
  badge: "/badge.svg",
  card: "/card",
} as const;
type Format = keyof typeof SUFFIXES;

const renderFormats = (view: DashboardView): Readonly<Record<Format, Rendered>> => {
  const { color } = view.dashboard.profile;
  const photos = view.dashboard.media.map(shownUrl);
  return {
    page: {
      type: HTML,
      body: renderPage(view),
      headers: {
        "Content-Security-Policy": documentPolicy(
          { style: PAGE_STYLE, color, photos },
          "frame-ancestors 'none'",
        ),
      },
    },
    json: {
      type: JSON_TYPE,
      body: JSON.stringify(presentDashboard(view)),
      headers: OPEN_TO_ALL,
    },
    badge: {
      type: "image/svg+xml",
      body: renderBadge(view),
      headers: { ...OPEN_TO_ALL, "Content-Security-Policy": contentPolicy("sandbox") },
    },
    card: {
      type: HTML,
      body: renderCard(view),
      headers: {
        ...OPEN_TO_ALL,
        "Content-Security-Policy": documentPolicy({ style: CARD_STYLE, color }),
      },
    },
  };
};

/** The ETags leave out the time of reading, so they change only with the numbers; therefore they are weak. */
const tagFormats = (view: DashboardView): Formats<Format> => {
  const rendered = renderFormats(view);
  const timeless = renderFormats({
    ...view,
    dashboard: { ...view.dashboard, updatedAt: new Date(0) },
  });
  const tagOf = (format: Format): Tagged =>
    tag(rendered[format], `W/"${hashOf(timeless[format])}"`);
  return {
    page: tagOf("page"),
    json: tagOf("json"),
    badge: tagOf("badge"),
    card: tagOf("card"),
  };
};

const NOT_FOUND = tag({
  type: HTML,
  body: renderDocument({
    title: "No such page",
    description: null,
    style: PAGE_STYLE,
    profile: DEFAULT_PROFILE,
    links: linksOf("http://localhost", ""),
    isIndexed: false,
    body: html`<main>
      <section>
        <h1>No such page</h1>
        <p>There is no page at this URL. Check the link.</p>
      </section>
    </main>`,
  }),
  headers: {
    "Content-Security-Policy": documentPolicy({ style: PAGE_STYLE, color: null }),
  },
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

/** The public pages and pictures. */
export const dashboardPages = (context: EvidenceContext): readonly Page[] => {
  const { db, publicBaseUrl } = context;
  const dashboards = createPageCache(async (slug) => {
    const dashboard = await readDashboard(context, slug);
    const links = linksOf(publicBaseUrl(), `/dashboard/${slug}`);
    return dashboard && tagFormats(viewDashboard(dashboard, links));
  });
  const lookUpWellFormed = createSlugLookup(db);
  const lookUpSlug = (slug: string): Promise<string | null> =>
    SLUG.safeParse(slug).success ? lookUpWellFormed(slug) : Promise.resolve(null);

  const redirect = (ctx: RequestContext, slug: string, suffix: string): void => {
    ctx.status = 301;
    ctx.set("Cache-Control", CACHE_CONTROL);
    ctx.set("Location", `${publicBaseUrl()}/dashboard/${slug}${suffix}`);
  };

  const serve =
    (format: Format) =>
    async (ctx: RequestContext): Promise<void> => {
      const slug = pathParameter(ctx, "slug");
      // Only pages that exist get into the cache, so made-up slugs evict none.
      const ownSlug = dashboards.has(slug) ? slug : await lookUpSlug(slug);
      const formats = ownSlug === slug ? await dashboards.fetch(slug) : undefined;
      if (formats) {
        send(ctx, formats[format], CACHE_CONTROL);
      } else if (ownSlug !== null && ownSlug !== slug) {
        redirect(ctx, ownSlug, SUFFIXES[format]);
      } else if (format === "page" || format === "card") {
        showNotFound(ctx);
      } else {
        throw new HttpError("path_not_found", "failed to find dashboard");
      }
    };

  /**
   * Redirects paths below a slug to the page: a slash at the end, because the links of the page are relative, and what may
   * have existed where an alias was imported from.
   */
  const redirectRest = async (ctx: RequestContext, next: () => Promise<unknown>): Promise<void> => {
    const slug = pathParameter(ctx, "slug");
    const ownSlug = await lookUpSlug(slug);
    if (ownSlug === null || (ownSlug === slug && !ctx.path.endsWith(`${slug}/`))) {
      await next();
    } else {
      redirect(ctx, ownSlug, "");
    }
  };

  return [
    ...picturePages(db),
    ...certificatePages(context, showNotFound),
    ...(["json", "badge", "card"] as const).map((name) => ({
      path: `/dashboard/:slug${SUFFIXES[name]}`,
      run: openToAll(serve(name)),
    })),
    { path: "/dashboard/:slug", run: serve("page") },
    { path: "/dashboard/:slug/{*rest}", run: redirectRest },
  ];
};
