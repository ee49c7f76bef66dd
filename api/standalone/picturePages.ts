import { LRUCache } from "lru-cache";
import type { CommonQueryMethods } from "slonik";
import { findLogoFiles } from "../../modules/accounts/profiles.sql.ts";
import { createLookups, rememberUnknown } from "../../db/batching/joinCalls.ts";
import { pathParameter } from "../http/requestContext.ts";
import type { Page } from "../http/createApp.ts";
import { HttpError } from "../http/httpError.ts";
import { send } from "../http/taggedResponses.ts";
import { IMMUTABLE, OPEN_TO_ALL, pictureOf } from "./servePages.ts";
import type { Tagged } from "../http/taggedResponses.ts";
import type { LookUp } from "../../db/batching/joinCalls.ts";
import { createRasterizer } from "../../modules/dashboard/createRasterizer.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import type { RequestContext } from "../http/requestContext.ts";
import { drawPreview } from "../pages/preview.ts";

const HASH = /^[0-9a-f]{64}$/u;
/** Of logos, and of previews. */
const CACHED_BYTES = 16 * 1024 * 1024;

/** Serves the logos of organizations. */
export const logoPage = (db: CommonQueryMethods): Page => {
  const pictures = new LRUCache<string, Tagged>({
    maxSize: CACHED_BYTES,
    sizeCalculation: ({ body }) => body.length,
  });
  const lookUp = rememberUnknown(createLookups((hashes) => findLogoFiles(db, hashes)));
  return {
    path: "/media/logos/:hash.png",
    run: async (ctx) => {
      const hash = pathParameter(ctx, "hash");
      let picture = pictures.get(hash);
      if (picture === undefined) {
        const file = HASH.test(hash) ? await lookUp(hash) : null;
        if (file === null) {
          throw new HttpError("path_not_found", "failed to find picture");
        }
        picture = pictureOf("image/png", file);
        pictures.set(hash, picture);
      }
      send(ctx, picture, IMMUTABLE);
    },
  };
};

const SUFFIX = "/preview.png";

/** Other sites fetch the picture when a visitor shares the link, and cache it for days. */
const CACHED_MS = 10 * 60 * 1000;

/** Serves the picture of a dashboard that other sites show beside a link to it. */
export const previewPage = ({
  db,
  lookUpSlug,
  read,
  redirect,
}: {
  readonly db: CommonQueryMethods;
  readonly lookUpSlug: LookUp<string>;
  readonly read: (slug: string) => Promise<Dashboard | null>;
  readonly redirect: (ctx: RequestContext, slug: string, suffix: string) => void;
}): Page => {
  const rasterize = createRasterizer();
  const pictures = new LRUCache<string, Tagged>({
    maxSize: CACHED_BYTES,
    sizeCalculation: ({ body }) => body.length,
    ttl: CACHED_MS,
    // Concurrent readers share one drawing.
    fetchMethod: async (slug) => {
      const dashboard = await read(slug);
      if (dashboard === null) {
        return undefined;
      }
      const { logo } = dashboard.profile;
      const file = logo && ((await findLogoFiles(db, [logo.hash])).get(logo.hash) ?? null);
      return pictureOf("image/png", await rasterize(drawPreview(dashboard, file)));
    },
  });
  return {
    path: `/dashboard/:slug${SUFFIX}`,
    run: async (ctx, next) => {
      const slug = pathParameter(ctx, "slug");
      const drawn = pictures.get(slug);
      const dashboardSlug = drawn ? slug : await lookUpSlug(slug);
      // Only pictures of pages that exist are drawn, so made-up slugs cost no drawing.
      const picture = drawn ?? (dashboardSlug === slug ? await pictures.fetch(slug) : undefined);
      if (picture) {
        // A client that kept it for ten more minutes would show it for twenty.
        const remainingMs = Math.max(0, pictures.getRemainingTTL(slug));
        send(ctx, picture, `public, max-age=${Math.floor(remainingMs / 1000)}`);
      } else if (dashboardSlug === null || dashboardSlug === slug) {
        await next();
      } else {
        ctx.set(OPEN_TO_ALL);
        redirect(ctx, dashboardSlug, SUFFIX);
      }
    },
  };
};
