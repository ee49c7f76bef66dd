import type { Middleware } from "koa";
import type { RequestContext, ApiState } from "./requestContext.ts";

/** What a browser is shown at paths that have no route. */
export type BrowserFallback = {
  readonly path: RegExp;
  readonly run: (ctx: RequestContext) => void;
};

/** Serves a page to browsers at such a path; API clients get the same error as at any unknown path. */
export const browserFallback =
  (fallbacks: readonly BrowserFallback[]): Middleware<ApiState> =>
  (ctx, next) => {
    const fallback = fallbacks.find(({ path }) => path.test(ctx.path));
    if (fallback === undefined || (ctx.method !== "GET" && ctx.method !== "HEAD")) {
      return next();
    }
    ctx.vary("Accept");
    // JSON first: most clients accept anything, and only browsers prefer HTML.
    return ctx.accepts("json", "html") === "html" ? fallback.run(ctx) : next();
  };
