import { findCertified } from "../../modules/dashboard/certificates.sql.ts";
import { findProfile } from "../../modules/accounts/profiles.sql.ts";
import { CERTIFICATE_TOKEN } from "../../modules/dashboard/certificate.rules.ts";
import type { EvidenceContext } from "../../modules/planting/context.ts";
import { pathParameter } from "../http/requestContext.ts";
import type { Page } from "../http/requestContext.ts";
import { JSON_TYPE } from "../http/endpoint.ts";
import { tag } from "../http/taggedResponses.ts";
import { presentCertificate } from "../pages/presentCertificate.ts";
import { documentPolicy, linksOf } from "../pages/renderDocument.ts";
import { findPictured, renderCertificate } from "../pages/renderCertificate.ts";
import { PAGE_STYLE } from "../pages/styles.ts";
import { createPageCache, HTML_TYPE, openToAll, sendPage } from "./servePages.ts";

/** The URL is for those who were given it, not for search engines. */
const NOT_INDEXED = { "X-Robots-Tag": "noindex, nofollow" };

/** Serves the certificates of records and orders, of both interfaces. */
export const certificatePages = ({
  db,
  planting,
  publicBaseUrl,
}: EvidenceContext): readonly Page[] => {
  const certificates = createPageCache(async (token) => {
    const certified = CERTIFICATE_TOKEN.test(token) ? await findCertified(db, token) : null;
    if (certified === null) {
      return null;
    }
    const profile = await findProfile(db, certified.ownerId);
    const links = linksOf(publicBaseUrl(), `/certificate/${token}`);
    const present = (base: string) =>
      presentCertificate(certified, profile.displayName ?? certified.ownerName, {
        url: links.pageUrl,
        base,
        partnerFor: (mode) => planting.partnerFor(mode).kind,
      });
    const shown = present(links.root);
    const photo = findPictured(shown)?.photo_url;
    const policy = { style: PAGE_STYLE, color: profile.color, photos: photo ? [photo] : [] };
    return {
      json: tag({
        type: JSON_TYPE,
        body: JSON.stringify(present(links.baseUrl)),
        headers: NOT_INDEXED,
      }),
      page: tag({
        type: HTML_TYPE,
        body: renderCertificate(shown, profile, links),
        headers: {
          ...NOT_INDEXED,
          "Content-Security-Policy": documentPolicy(policy, "frame-ancestors 'none'"),
        },
      }),
    };
  });
  const serve =
    (format: "json" | "page"): Page["run"] =>
    async (ctx) => {
      const formats = await certificates.fetch(pathParameter(ctx, "token"));
      sendPage(ctx, formats?.[format], { name: "certificate", isForPeople: format === "page" });
    };
  return [
    { path: "/certificate/:token.json", run: openToAll(serve("json")) },
    { path: "/certificate/:token", run: serve("page") },
  ];
};
