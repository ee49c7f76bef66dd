import { PLANTED_KIND } from "../../modules/records/owner.rules.ts";
import { findCertified } from "../../modules/dashboard/certificates.sql.ts";
import type { Certified } from "../../modules/dashboard/certificates.sql.ts";
import { findProfile } from "../../modules/accounts/profiles.sql.ts";
import { CERTIFICATE_TOKEN } from "../../modules/dashboard/certificate.rules.ts";
import { expectedPartner } from "../../modules/planting/order.rules.ts";
import type { Planting } from "../../modules/planting/createPlanting.ts";
import { createLookups } from "../../db/batching/joinCalls.ts";
import type { EvidenceContext } from "../../modules/planting/context.ts";
import { pathParameter } from "../http/requestContext.ts";
import type { RequestContext } from "../http/requestContext.ts";
import type { Page } from "../http/createApp.ts";
import { HttpError } from "../http/httpError.ts";
import { JSON_TYPE, send, tag } from "../http/taggedResponses.ts";
import { presentCertificate, viewCertificate } from "../pages/presentCertificate.ts";
import { documentPolicy } from "../pages/renderDocument.ts";
import { renderCertificate } from "../pages/renderCertificate.ts";
import { PAGE_STYLE } from "../pages/styles.ts";
import { CACHE_CONTROL, createPageCache, openToAll } from "./servePages.ts";

/** The URL is for those who were given it, not for search engines. */
const NOT_INDEXED = { "X-Robots-Tag": "noindex, nofollow" };

/** Trees that have no planting order yet are marked as they will be, as in their evidence. */
const withExpectedPartners = (certified: Certified, planting: Planting): Certified => ({
  ...certified,
  items: certified.items.map((item) =>
    item.kind === PLANTED_KIND
      ? { ...item, partner: expectedPartner(item, planting.partnerFor(item.mode).kind) }
      : item,
  ),
});

/** Serves the certificates of records and orders, of both interfaces. */
export const certificatePages = (
  { db, planting, publicBaseUrl }: EvidenceContext,
  showNotFound: (ctx: RequestContext) => void,
): readonly Page[] => {
  const lookUp = createLookups((tokens) => findCertified(db, tokens));
  const certificates = createPageCache(async (token) => {
    const found = CERTIFICATE_TOKEN.test(token) ? await lookUp(token) : null;
    if (found === null) {
      return null;
    }
    const profile = await findProfile(db, found.ownerId);
    const certified = withExpectedPartners(found, planting);
    const view = viewCertificate({ certified, profile }, publicBaseUrl());
    const photos = view.pictured?.photo ? [view.pictured.photo.url] : [];
    const policy = { style: PAGE_STYLE, color: profile.color, photos };
    return {
      json: tag({
        type: JSON_TYPE,
        body: JSON.stringify(presentCertificate(view)),
        headers: NOT_INDEXED,
      }),
      page: tag({
        type: "text/html",
        body: renderCertificate(view),
        headers: {
          ...NOT_INDEXED,
          "Content-Security-Policy": documentPolicy(policy, "frame-ancestors 'none'"),
        },
      }),
    };
  });
  return [
    {
      path: "/certificate/:token.json",
      run: openToAll(async (ctx) => {
        const formats = await certificates.fetch(pathParameter(ctx, "token"));
        if (formats === undefined) {
          throw new HttpError("path_not_found", "failed to find certificate");
        }
        send(ctx, formats.json, CACHE_CONTROL);
      }),
    },
    {
      path: "/certificate/:token",
      run: async (ctx) => {
        const formats = await certificates.fetch(pathParameter(ctx, "token"));
        if (formats === undefined) {
          showNotFound(ctx);
        } else {
          send(ctx, formats.page, CACHE_CONTROL);
        }
      },
    },
  ];
};
