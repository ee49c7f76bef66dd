import { LRUCache } from "lru-cache";
import type { CommonQueryMethods } from "slonik";
import { findLogoFiles } from "../../modules/accounts/profiles.sql.ts";
import { createLookups } from "../../db/batching/createLookups.ts";
import { rememberUnknown } from "../../db/batching/rememberUnknown.ts";
import { pathParameter } from "../http/requestContext.ts";
import type { Page } from "../http/createApp.ts";
import { HttpError } from "../http/httpError.ts";
import { send } from "../http/taggedResponses.ts";
import { IMMUTABLE, pictureOf } from "./servePages.ts";
import type { Tagged } from "../http/taggedResponses.ts";

const HASH = /^[0-9a-f]{64}$/u;
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
