import { LRUCache } from "lru-cache";
import { PLANTED_KIND } from "../../modules/records/owner.rules.ts";
import { findCertified } from "../../modules/dashboard/certificates.sql.ts";
import type { Certified } from "../../modules/dashboard/certificates.sql.ts";
import { findProfile } from "../../modules/accounts/profiles.sql.ts";
import { CERTIFICATE_TOKEN } from "../../modules/dashboard/certificate.rules.ts";
import { expectedPartner } from "../../modules/planting/order.rules.ts";
import type { Planting } from "../../modules/planting/createPlanting.ts";
import { createLookups, rememberUnknown } from "../../db/batching/joinCalls.ts";
import type { EvidenceContext } from "../../modules/planting/context.ts";
import { pathParameter } from "../http/requestContext.ts";
import type { RequestContext } from "../http/requestContext.ts";
import type { Page } from "../http/createApp.ts";
import { HttpError } from "../http/httpError.ts";
import { createRenderings } from "./createRenderings.ts";
import { send, tag } from "../http/taggedResponses.ts";
import { allowStyles, openToAll, policy } from "./servePages.ts";
import type { Tagged } from "../http/taggedResponses.ts";
import { presentCertificate } from "../pages/presentCertificate.ts";
import type { Certificate } from "../pages/presentCertificate.ts";
import { renderCertificate } from "../pages/renderCertificate.ts";
import { brandStyle, PAGE_STYLE } from "../pages/styles.ts";

const MAXIMUM_CACHED = 500;
const RENDERED_BYTES = 8 * 1024 * 1024;
/** A revoked certificate is gone after this time. */
const CACHED_MS = 5000;
const CACHE_CONTROL = "public, max-age=10";
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

const renderPage = (certificate: Certificate, baseUrl: string): Tagged =>
  tag({
    type: "text/html",
    body: renderCertificate(certificate, baseUrl),
    headers: {
      ...NOT_INDEXED,
      "Content-Security-Policy": policy(
        allowStyles(PAGE_STYLE, brandStyle(certificate.profile.color)),
        "img-src 'self'",
        "frame-ancestors 'none'",
      ),
    },
  });

const renderJson = (certificate: Certificate, baseUrl: string): Tagged =>
  tag({
    type: "application/json",
    body: JSON.stringify(presentCertificate(certificate, baseUrl)),
    headers: NOT_INDEXED,
  });

/** Serves the certificates of records and orders, of both interfaces. */
export const certificatePages = ({
  db,
  planting,
  publicBaseUrl,
  showNotFound,
}: Pick<EvidenceContext, "db" | "planting" | "publicBaseUrl"> & {
  readonly showNotFound: (ctx: RequestContext) => void;
}): readonly Page[] => {
  const lookUp = rememberUnknown(createLookups((tokens) => findCertified(db, tokens)));
  const certificates = new LRUCache<string, Certificate>({ max: MAXIMUM_CACHED, ttl: CACHED_MS });
  const rendered = createRenderings<Certificate, Tagged>(({ body }) => body.length, {
    maximumBytes: RENDERED_BYTES,
  });

  const find = async (token: string): Promise<Certificate | null> => {
    const cached = certificates.get(token);
    if (cached || !CERTIFICATE_TOKEN.test(token)) {
      return cached ?? null;
    }
    const certified = await lookUp(token);
    if (certified === null) {
      return null;
    }
    const certificate = {
      certified: withExpectedPartners(certified, planting),
      profile: await findProfile(db, certified.ownerId),
    };
    certificates.set(token, certificate);
    return certificate;
  };

  return [
    {
      path: "/certificate/:token.json",
      run: openToAll(async (ctx) => {
        const token = pathParameter(ctx, "token");
        const certificate = await find(token);
        if (certificate === null) {
          throw new HttpError("path_not_found", "failed to find certificate");
        }
        const json = rendered(`json/${token}`, certificate, () =>
          renderJson(certificate, publicBaseUrl()),
        );
        send(ctx, json, CACHE_CONTROL);
      }),
    },
    {
      path: "/certificate/:token",
      run: async (ctx) => {
        const token = pathParameter(ctx, "token");
        const certificate = await find(token);
        if (certificate === null) {
          showNotFound(ctx);
          return;
        }
        const page = rendered(`page/${token}`, certificate, () =>
          renderPage(certificate, publicBaseUrl()),
        );
        send(ctx, page, CACHE_CONTROL);
      },
    },
  ];
};
