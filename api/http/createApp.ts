import Router from "@koa/router";
import Koa from "koa";
import type { Middleware } from "koa";
import type { Logger } from "pino";
import type { PresentError } from "../../program/apiErrors.ts";
import { browserFallback } from "../middleware/browserFallback.ts";
import type { BrowserFallback } from "../middleware/browserFallback.ts";
import { handleErrors } from "../middleware/handleErrors.ts";
import { identifyRequest } from "../middleware/identifyRequest.ts";
import { limitRate } from "../middleware/limitRate.ts";
import type { TakePermit } from "../../db/rateLimits.ts";
import { observeRequest } from "../middleware/observeRequest.ts";
import type { RequestObserver } from "../middleware/observeRequest.ts";
import { readBody } from "../middleware/readBody.ts";
import { rejectUnmatched } from "../middleware/rejectUnmatched.ts";
import type { ApiContext, ApiState } from "./apiContext.ts";
import type { Endpoint } from "./endpoint.ts";
import { HttpError } from "./httpError.ts";

/** What every interface's app needs of the process around it. */
export type AppDependencies = {
  readonly logger: Logger;
  readonly observe: RequestObserver;
};

/** What people and tools read with GET and without a key; not part of the interface. */
export type Page = {
  readonly path: string;
  readonly run: (ctx: ApiContext) => Promise<void> | void;
};

const rememberRoute =
  (path: string): Middleware<ApiState, { params: Record<string, string> }> =>
  (ctx, next) => {
    ctx.state.route = path;
    ctx.state.parameters = ctx.params;
    return next();
  };

const requireKey =
  (message: string): Middleware<ApiState> =>
  (ctx, next) => {
    if (ctx.req.headers.authorization === undefined || ctx.req.headers.authorization === "") {
      throw new HttpError("key_missing", message);
    }
    return next();
  };

/** An app around endpoints: the same way in for each, in the order of the list below. */
export const createApp = ({
  logger,
  observe,
  checkKey,
  takePermit,
  presentError,
  endpoints,
  pages = [],
  browserFallbacks = [],
}: AppDependencies & {
  /** Lets only requests with a valid key pass, and tells `ctx.state.caller` whose it is. */
  readonly checkKey: Middleware<ApiState>;
  /** Counts the requests of endpoints that have a limit. */
  readonly takePermit?: TakePermit;
  readonly presentError: PresentError;
  readonly endpoints: readonly Endpoint[];
  readonly pages?: readonly Page[];
  readonly browserFallbacks?: readonly BrowserFallback[];
}): Koa<ApiState> => {
  const app = new Koa<ApiState>();
  // Answers that Koa itself fails to write; refusals and faults of ours never get here.
  app.on("error", (error: NodeJS.ErrnoException) => {
    logger.debug({ err: error }, "connection lost");
  });
  app.use(identifyRequest());
  app.use(observeRequest({ logger, observe }));
  app.use(handleErrors({ logger, presentError }));

  const router = new Router<ApiState>({ sensitive: true, strict: true });
  const parseBody = readBody();
  for (const { method, path, access, missingKey, requestsPerSecond, run } of endpoints) {
    router[method](
      path,
      rememberRoute(path),
      ...(missingKey === undefined ? [] : [requireKey(missingKey)]),
      ...(access === "key" ? [checkKey] : []),
      ...(requestsPerSecond === undefined
        ? []
        : [limitRate({ takePermit, endpoint: `${method} ${path}`, requestsPerSecond })]),
      ...(method === "post" ? [parseBody] : []),
      run,
    );
  }
  for (const { path, run } of pages) {
    router.get(path, rememberRoute(path), run);
  }
  app.use(router.routes());
  app.use(browserFallback(browserFallbacks));
  app.use(rejectUnmatched);
  return app;
};
