import { findCertified } from "../../modules/dashboard/certificates.sql.ts";
import { findProfile } from "../../modules/accounts/profiles.sql.ts";
import { CERTIFICATE_TOKEN } from "../../modules/dashboard/certificate.rules.ts";
import type { EvidenceContext } from "../../modules/planting/context.ts";
import { pathParameter } from "../http/requestContext.ts";
import type { Page } from "../http/requestContext.ts";
import { JSON_TYPE } from "../http/endpoint.ts";
import { tag } from "../http/taggedResponses.ts";
import { presentCertificate } from "../pages/presentCertificate.ts";
import { linksOf } from "../pages/renderDocument.ts";
import { renderCertificate } from "../pages/renderCertificate.ts";
import { createPageCache, openToAll, sendPage } from "./servePages.ts";

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
    return {
      json: tag({ type: JSON_TYPE, body: JSON.stringify(present(links.baseUrl)) }),
      page: tag(renderCertificate(present(links.root), profile, links)),
    };
  });
  const serve =
    (format: "json" | "page"): Page["run"] =>
    async (ctx) => {
      // The URL is for those who were given it, not for search engines.
      ctx.set("X-Robots-Tag", "noindex, nofollow");
      const formats = await certificates.fetch(pathParameter(ctx, "token"));
      sendPage(ctx, formats?.[format], { name: "certificate", isForPeople: format === "page" });
    };
  return [
    { path: "/certificate/:token.json", run: openToAll(serve("json")) },
    { path: "/certificate/:token", run: serve("page") },
  ];
};
