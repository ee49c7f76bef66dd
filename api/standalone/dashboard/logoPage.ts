import { LRUCache } from "lru-cache";
import type { CommonQueryMethods } from "slonik";
import { findLogoFiles } from "../../../db/dashboard/profiles.ts";
import { createLookups } from "../../../services/createLookups.ts";
import { rememberUnknown } from "../../../services/rememberUnknown.ts";
import { pathParameter } from "../../http/apiContext.ts";
import type { Page } from "../../http/createApp.ts";
import { HttpError } from "../../http/httpError.ts";
import { IMMUTABLE, sendPicture } from "./servePages.ts";

const HASH = /^[0-9a-f]{64}$/u;
const CACHED_BYTES = 16 * 1024 * 1024;

/** Serves the logos of organizations. */
export const logoPage = (db: CommonQueryMethods): Page => {
  const files = new LRUCache<string, Buffer>({
    maxSize: CACHED_BYTES,
    sizeCalculation: (file) => file.length,
  });
  const lookUp = rememberUnknown(createLookups((hashes) => findLogoFiles(db, hashes)));
  return {
    path: "/media/logos/:hash.png",
    run: async (ctx) => {
      const hash = pathParameter(ctx, "hash");
      const file = files.get(hash) ?? (HASH.test(hash) ? await lookUp(hash) : null);
      if (file === null) {
        throw new HttpError("path_not_found", "failed to find picture");
      }
      files.set(hash, file);
      sendPicture(ctx, "image/png", file, IMMUTABLE);
    },
  };
};
