import { LRUCache } from "lru-cache";
import { createLookups } from "../../db/batching/joinCalls.ts";
import { DEFAULT_PROFILE } from "../../modules/accounts/profile.rules.ts";
import { findProfile } from "../../modules/accounts/profiles.sql.ts";
import { CERTIFICATE_TOKEN } from "../../modules/dashboard/certificate.rules.ts";
import { findCertificates, readCertified } from "../../modules/dashboard/certificates.sql.ts";
import { findDashboards } from "../../modules/dashboard/dashboards.sql.ts";
import { readDashboard } from "../../modules/dashboard/readDashboard.ts";
import type { EvidenceContext } from "../../modules/planting/context.ts";
import { text } from "../../modules/records/fields.rules.ts";
import { JSON_TYPE } from "../http/endpoint.ts";
import { HttpError } from "../http/httpError.ts";
import { pathParameter } from "../http/requestContext.ts";
import type { Page, RequestContext } from "../http/requestContext.ts";
import { send, tag } from "../http/taggedResponses.ts";
import type { Tagged } from "../http/taggedResponses.ts";
import { html } from "../pages/html.ts";
import { presentCertificate } from "../pages/presentCertificate.ts";
import { presentDashboard, viewDashboard } from "../pages/presentDashboard.ts";
import { renderCertificate } from "../pages/renderCertificate.ts";
import { linksOf, renderDocument } from "../pages/renderDocument.ts";
import { renderBadge, renderCard } from "../pages/renderEmbeds.ts";
import { renderPage } from "../pages/renderPage.ts";

/** Lets other sites embed what a path has, follow its redirects and read its errors. */
export const openToAll =
  (run: Page["run"]): Page["run"] =>
  (ctx) => {
    ctx.set({ "Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin" });
    return run(ctx);
  };

/** Pages are rendered once in this time, and a revoked certificate is gone after it. */
const CACHED_MS = 5000;
const CACHED_BYTES = 48 * 1024 * 1024;
const CACHE_CONTROL = "public, max-age=10";

/** What a name has: its formats, or the name that has replaced it. */
type Shown<Offered extends string> = Readonly<Record<Offered, Tagged>> | string;

type PageSource<Found, Value extends Shown<string>> = {
  /** Whether a name has the form of one. */
  readonly isName: (name: string) => boolean;
  /** Returns what is known of the names that exist. */
  readonly find: (names: readonly string[]) => Promise<ReadonlyMap<string, Found>>;
  /** Returns null if the name has nothing. */
  readonly render: (found: Found, name: string) => Promise<Value | null> | Value;
};

/**
 * Caches for some seconds what names have. Concurrent readers share one read of the database. Names that have nothing take
 * no room, and are looked up together, so made-up names cost little.
 */
export const createPageCache = <Found, Value extends Shown<string>>({
  isName,
  find,
  render,
}: PageSource<Found, Value>): LRUCache<string, Value> => {
  const lookUp = createLookups(find);
  return new LRUCache({
    maxSize: CACHED_BYTES,
    sizeCalculation: (shown) =>
      typeof shown === "string"
        ? shown.length
        : Object.values(shown).reduce((sum, { body }) => sum + body.length, 0),
    ttl: CACHED_MS,
    fetchMethod: async (name) => {
      const found = isName(name) ? await lookUp(name) : null;
      return found === null ? undefined : ((await render(found, name)) ?? undefined);
    },
  });
};

const NOT_FOUND = tag(
  renderDocument({
    title: "No such page",
    profile: DEFAULT_PROFILE,
    links: linksOf("http://localhost", ""),
    body: html`<main>
      <section>
        <h1>No such page</h1>
        <p>There is no page at this URL. Check the link.</p>
      </section>
    </main>`,
  }),
);

const showNotFound = (ctx: RequestContext): void => {
  send(ctx, NOT_FOUND, "no-store");
  ctx.status = 404;
};

/** How the path of each format continues after the name. */
const SUFFIXES = { json: ".json", badge: "/badge.svg", card: "/card", page: "" } as const;
type Format = keyof typeof SUFFIXES;

/** Formats without which people are shown a page that says so, and programs an error. */
const FOR_PEOPLE: ReadonlySet<Format> = new Set(["page", "card"]);

type Kind<Found, Offered extends Format> = PageSource<Found, Shown<Offered>> & {
  readonly kind: "dashboard" | "certificate";
  /** The name of the last part of their paths. */
  readonly parameter: string;
  readonly formats: readonly Offered[];
  readonly headers?: Readonly<Record<string, string>>;
};

const pagesOf = <Found, Offered extends Format>(
  publicBaseUrl: () => string,
  { kind, parameter, formats, headers = {}, ...source }: Kind<Found, Offered>,
): readonly Page[] => {
  const cache = createPageCache(source);
  const redirect = (ctx: RequestContext, name: string, suffix: string): void => {
    ctx.status = 301;
    ctx.set("Cache-Control", CACHE_CONTROL);
    ctx.set("Location", `${publicBaseUrl()}/${kind}/${encodeURIComponent(name)}${suffix}`);
  };
  const serve =
    (format: Offered): Page["run"] =>
    async (ctx) => {
      ctx.set(headers);
      const shown = await cache.fetch(pathParameter(ctx, parameter));
      if (typeof shown === "string") {
        redirect(ctx, shown, SUFFIXES[format]);
      } else if (shown) {
        send(ctx, shown[format], CACHE_CONTROL);
      } else if (FOR_PEOPLE.has(format)) {
        showNotFound(ctx);
      } else {
        throw new HttpError("path_not_found", `failed to find ${kind}`);
      }
    };
  const path = `/${kind}/:${parameter}`;
  return [
    ...formats.map((format) => ({
      path: path + SUFFIXES[format],
      run: format === "page" ? serve(format) : openToAll(serve(format)),
    })),
    // The links of a page are relative to its path without a slash.
    { path: `${path}/`, run: (ctx) => redirect(ctx, pathParameter(ctx, parameter), "") },
    { path: `/${kind}{/{*rest}}`, run: showNotFound },
  ];
};

/** May come from an earlier system, so its form is unknown. */
const SLUG = text(200);

const dashboardPages = (context: EvidenceContext): readonly Page[] =>
  pagesOf(context.publicBaseUrl, {
    kind: "dashboard",
    parameter: "slug",
    formats: ["json", "badge", "card", "page"],
    isName: (slug) => SLUG.safeParse(slug).success,
    find: (slugs) => findDashboards(context.db, slugs),
    render: async (found, slug) => {
      if (found.ownSlug !== slug) {
        return found.ownSlug;
      }
      const links = linksOf(context.publicBaseUrl(), `/dashboard/${slug}`);
      const view = viewDashboard(await readDashboard(context, found), links);
      return {
        page: tag(renderPage(view)),
        json: tag({ type: JSON_TYPE, body: JSON.stringify(presentDashboard(view)) }),
        badge: tag(renderBadge(view)),
        card: tag(renderCard(view)),
      };
    },
  });

/** The certificates of records and orders, of both interfaces. */
const certificatePages = ({ db, planting, publicBaseUrl }: EvidenceContext): readonly Page[] =>
  pagesOf(publicBaseUrl, {
    kind: "certificate",
    parameter: "token",
    formats: ["json", "page"],
    // The URL is for those who were given it, not for search engines.
    headers: { "X-Robots-Tag": "noindex, nofollow" },
    isName: (token) => CERTIFICATE_TOKEN.test(token),
    find: (tokens) => findCertificates(db, tokens),
    render: async (certificate, token) => {
      const certified = await readCertified(db, certificate);
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
    },
  });

export const publicPages = (context: EvidenceContext): readonly Page[] => [
  ...dashboardPages(context),
  ...certificatePages(context),
];
