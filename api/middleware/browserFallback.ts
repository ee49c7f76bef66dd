import type { Middleware } from "koa";
import type { ApiContext, ApiState } from "../http/apiContext.ts";

/** What people are shown at addresses that no route knows. */
export type BrowserFallback = {
  readonly path: RegExp;
  readonly run: (ctx: ApiContext) => void;
};

/** Helps people who open such an address in a browser. Clients of the interface are refused there as everywhere. */
export const browserFallback =
  (browserFallbacks: readonly BrowserFallback[]): Middleware<ApiState> =>
  (ctx, next) => {
    const guide = browserFallbacks.find(({ path }) => path.test(ctx.path));
    if (guide === undefined || (ctx.method !== "GET" && ctx.method !== "HEAD")) {
      return next();
    }
    ctx.vary("Accept");
    // JSON first: most clients take anything, and only browsers ask for pages before all else.
    return ctx.accepts("json", "html") === "html" ? guide.run(ctx) : next();
  };
