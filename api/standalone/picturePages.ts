import type { CommonQueryMethods } from "slonik";
import { findLogoFiles } from "../../modules/accounts/profiles.sql.ts";
import { inPublicPath } from "../../runtime/cell.rules.ts";
import { CHARITY_ICON_PATH } from "../endpoints/charities.ts";
import type { Page } from "../http/requestContext.ts";
import { HttpError } from "../http/httpError.ts";
import { pathParameter } from "../http/requestContext.ts";
import { send, tag } from "../http/taggedResponses.ts";
import { drawSimulatedPhoto } from "../pages/drawSimulatedPhoto.ts";
import { WORLD } from "../pages/worldMap.ts";
import { pictureOf, SVG } from "../pages/renderDocument.ts";
import { createPageCache, openToAll } from "./publicPages.ts";

/** For pictures that depend on their URL alone. */
const IMMUTABLE = "public, max-age=31536000, immutable";

const HASH = inPublicPath("[0-9a-f]{64}");
const SEED = /^[\w-]{1,120}$/u;

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#1c6b47"/><path fill="#e9f4ec" d="M15 26v-8c-5 0-8-3-8-8 5 0 8 2 9 6 1-5 4-8 9-9 0 6-3 10-8 10.500V26z"/></svg>`;

const CHARITY_ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" rx="12" fill="#2d5f73"/><path fill="#fff" d="M32 50 14 32a11 11 0 0 1 18-13 11 11 0 0 1 18 13z"/></svg>`;

const simulatedPhotoPage: Page = {
  path: "/media/simulated/:name.svg",
  run: (ctx) => {
    const seed = pathParameter(ctx, "name");
    if (!SEED.test(seed)) {
      throw new HttpError("path_not_found", "failed to find picture");
    }
    send(ctx, tag(pictureOf(SVG, drawSimulatedPhoto(seed))), IMMUTABLE);
  },
};

/** Serves the logos of organizations as operators gave them. No browser takes them for anything but pictures. */
const logoPage = (db: CommonQueryMethods): Page => {
  const logos = createPageCache({
    isName: (hash) => HASH.test(hash),
    find: (hashes) => findLogoFiles(db, hashes),
    render: ({ type, file }) => ({ file: tag(pictureOf(`image/${type}`, file)) }),
  });
  return {
    path: "/media/logos/:hash",
    run: async (ctx) => {
      const logo = await logos.fetch(pathParameter(ctx, "hash"));
      if (logo === undefined) {
        throw new HttpError("path_not_found", "failed to find picture");
      }
      send(ctx, logo.file, IMMUTABLE);
    },
  };
};

const drawingPage = (path: string, drawing: string | Buffer): Page => {
  const picture = tag(pictureOf(SVG, drawing));
  return { path, run: (ctx) => send(ctx, picture, "public, max-age=86400") };
};

export const picturePages = (db: CommonQueryMethods): readonly Page[] =>
  [
    drawingPage("/dashboard/world.svg", WORLD),
    drawingPage("/dashboard/icon.svg", ICON),
    drawingPage(CHARITY_ICON_PATH, CHARITY_ICON),
    simulatedPhotoPage,
    logoPage(db),
  ].map(({ path, run }) => ({ path, run: openToAll(run) }));
