import { text } from "../../modules/records/fields.rules.ts";
import { readDashboard } from "../../modules/dashboard/readDashboard.ts";
import { findDashboard } from "../../modules/dashboard/dashboards.sql.ts";
import type { EvidenceContext } from "../../modules/planting/context.ts";
import { pathParameter } from "../http/requestContext.ts";
import type { Page, RequestContext } from "../http/requestContext.ts";
import { JSON_TYPE } from "../http/endpoint.ts";
import { etagOf, tag } from "../http/taggedResponses.ts";
import type { Rendered, Tagged } from "../http/taggedResponses.ts";
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

/** The ETags leave out the time of reading, so they change only with the numbers; therefore they are weak. */
const renderFormats = (view: DashboardView) => {
  const timeless = { ...view, dashboard: { ...view.dashboard, updatedAt: new Date(0) } };
  const format = (render: (shown: DashboardView) => Rendered): Tagged =>
    tag(render(view), `W/${etagOf(render(timeless))}`);
  return {
    page: format(renderPage),
    json: format((shown) => ({ type: JSON_TYPE, body: JSON.stringify(presentDashboard(shown)) })),
    badge: format(renderBadge),
    card: format(renderCard),
  };
};

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
    ctx.set("Location", `${publicBaseUrl()}/dashboard/${slug}${suffix}`);
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

  /**
   * Redirects paths below a slug to the page: a slash at the end, because the links of the page are relative, and what may
   * have existed where an alias was imported from.
   */
  const redirectRest: Page["run"] = async (ctx, next) => {
    const slug = pathParameter(ctx, "slug");
    const shown = await dashboards.fetch(slug);
    if (typeof shown === "string") {
      redirect(ctx, shown, "");
    } else if (shown && ctx.path.endsWith(`${slug}/`)) {
      redirect(ctx, slug, "");
    } else {
      await next();
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
    { path: "/dashboard/:slug/{*rest}", run: redirectRest },
    ...notFoundPages,
  ];
};
