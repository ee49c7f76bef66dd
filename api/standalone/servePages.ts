import { LRUCache } from "lru-cache";
import { DEFAULT_PROFILE } from "../../modules/accounts/profile.rules.ts";
import { HttpError } from "../http/httpError.ts";
import type { Page, RequestContext } from "../http/requestContext.ts";
import { send, tag } from "../http/taggedResponses.ts";
import type { Tagged } from "../http/taggedResponses.ts";
import { html } from "../pages/html.ts";
import { linksOf, renderDocument } from "../pages/renderDocument.ts";
import { PAGE_STYLE } from "../pages/styles.ts";

export const CACHE_CONTROL = "public, max-age=10";

/** Lets other sites embed what a path has, follow its redirects and read its errors. */
export const openToAll =
  (run: Page["run"]): Page["run"] =>
  (ctx, next) => {
    ctx.set({
      "Access-Control-Allow-Origin": "*",
      "Cross-Origin-Resource-Policy": "cross-origin",
    });
    return run(ctx, next);
  };

/** Pages are rendered once in this time, and a revoked certificate is gone after it. */
const CACHED_MS = 5000;
const CACHED_BYTES = 48 * 1024 * 1024;

/** What one name has, by format. */
type Formats<Format extends string> = Readonly<Record<Format, Tagged>>;

/**
 * Caches for some seconds what public pages show: the formats of a name, or the name that has replaced it. Concurrent
 * readers share one read of the database. Names that have nothing take no room.
 * @param render returns null if the name has nothing
 */
export const createPageCache = <Shown extends Formats<string> | string>(
  render: (name: string) => Promise<Shown | null>,
): LRUCache<string, Shown> =>
  new LRUCache({
    maxSize: CACHED_BYTES,
    sizeCalculation: (shown) =>
      typeof shown === "string"
        ? shown.length
        : Object.values(shown).reduce((sum, { body }) => sum + body.length, 0),
    ttl: CACHED_MS,
    fetchMethod: async (name) => (await render(name)) ?? undefined,
  });

const NOT_FOUND = tag(
  renderDocument({
    title: "No such page",
    description: null,
    style: PAGE_STYLE,
    profile: DEFAULT_PROFILE,
    links: linksOf("http://localhost", ""),
    isIndexed: false,
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

/** For unknown paths below /dashboard and /certificate. */
export const notFoundPages: readonly Page[] = ["dashboard", "certificate"].map((name) => ({
  path: `/${name}{/{*rest}}`,
  run: showNotFound,
}));

/**
 * Sends one format of a page, if the page exists.
 * @throws HttpError path_not_found for a format that programs read
 */
export const sendPage = (
  ctx: RequestContext,
  page: Tagged | undefined,
  { name, isForPeople }: { readonly name: string; readonly isForPeople: boolean },
): void => {
  if (page) {
    send(ctx, page, CACHE_CONTROL);
  } else if (isForPeople) {
    showNotFound(ctx);
  } else {
    throw new HttpError("path_not_found", `failed to find ${name}`);
  }
};
