import { text } from "../../modules/records/fields.rules.ts";
import { readDashboard } from "../../modules/dashboard/readDashboard.ts";
import { findDashboard } from "../../modules/dashboard/dashboards.sql.ts";
import type { EvidenceContext } from "../../modules/planting/context.ts";
import { pathParameter } from "../http/requestContext.ts";
import type { Page, RequestContext } from "../http/requestContext.ts";
import { JSON_TYPE } from "../http/endpoint.ts";
import { tag } from "../http/taggedResponses.ts";
import { presentDashboard, viewDashboard } from "../pages/presentDashboard.ts";
import type { DashboardView } from "../pages/presentDashboard.ts";
import { linksOf } from "../pages/renderDocument.ts";
import { renderBadge, renderCard } from "../pages/renderEmbeds.ts";
import { renderPage } from "../pages/renderPage.ts";
import { certificatePages } from "./certificatePages.ts";
import { picturePages } from "./picturePages.ts";
import {
  CACHE_CONTROL,
  createPageCache,
  notFoundPages,
  openToAll,
  sendPage,
} from "./servePages.ts";

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

const renderFormats = (view: DashboardView) => ({
  page: tag(renderPage(view)),
  json: tag({ type: JSON_TYPE, body: JSON.stringify(presentDashboard(view)) }),
  badge: tag(renderBadge(view)),
  card: tag(renderCard(view)),
});

export const dashboardPages = (context: EvidenceContext): readonly Page[] => {
  const { db, publicBaseUrl } = context;
  const dashboards = createPageCache(async (slug) => {
    const found = SLUG.safeParse(slug).success ? await findDashboard(db, slug) : null;
    if (found?.ownSlug !== slug) {
      return found && found.ownSlug;
    }
    const links = linksOf(publicBaseUrl(), `/dashboard/${slug}`);
    return renderFormats(viewDashboard(await readDashboard(context, found), links));
  });

  const redirect = (ctx: RequestContext, slug: string, suffix: string): void => {
    ctx.status = 301;
    ctx.set("Cache-Control", CACHE_CONTROL);
    ctx.set("Location", `${publicBaseUrl()}/dashboard/${encodeURIComponent(slug)}${suffix}`);
  };

  const serve =
    (format: Format): Page["run"] =>
    async (ctx) => {
      const shown = await dashboards.fetch(pathParameter(ctx, "slug"));
      if (typeof shown === "string") {
        redirect(ctx, shown, SUFFIXES[format]);
      } else {
        const isForPeople = format === "page" || format === "card";
        sendPage(ctx, shown?.[format], { name: "dashboard", isForPeople });
      }
    };

  return [
    ...picturePages(db),
    ...certificatePages(context),
    ...(["json", "badge", "card"] as const).map((name) => ({
      path: `/dashboard/:slug${SUFFIXES[name]}`,
      run: openToAll(serve(name)),
    })),
    { path: "/dashboard/:slug", run: serve("page") },
    // The links of the page are relative to its path without a slash.
    { path: "/dashboard/:slug/", run: (ctx) => redirect(ctx, pathParameter(ctx, "slug"), "") },
    ...notFoundPages,
  ];
};
