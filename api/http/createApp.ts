import Router from "@koa/router";
import Koa from "koa";
import type { Middleware } from "koa";
import compose from "koa-compose";
import type { PresentError } from "../../runtime/errorStatus.ts";
import type { Listener } from "../../runtime/server/openDoor.ts";
import { checkHead, rejectUnmatched } from "./requestTargets.ts";
import { handleErrors } from "./handleErrors.ts";
import { identifyRequest, observeRequest, traceRequest } from "./observeRequests.ts";
import { limitBatches, limitRate, runForAccounts, runForVisitors } from "./requestTurns.ts";
import { BODY_KIB, readBody } from "./readBody.ts";
import { requireWriteScope } from "./authenticate.ts";
import type { HttpContext } from "../context.ts";
import type { RequestContext, ApiState } from "./requestContext.ts";
import type { Endpoint } from "./endpoint.ts";
import { HttpError } from "./httpError.ts";

/** A page or file that is served by GET without a key and is not part of the API. */
export type Page = {
  readonly path: string;
  /** Calls `next` if the path turns out to have no page. */
  readonly run: (ctx: RequestContext, next: () => Promise<unknown>) => Promise<void> | void;
};

/** A route that another company calls with a signed body. It is not part of the API's description. */
export type Webhook = {
  readonly path: string;
  readonly run: (ctx: RequestContext) => Promise<void>;
};

/** @param vary the request headers by which the responses differ */
const setRoute =
  (path: string, vary = ""): Middleware<ApiState, { params: Record<string, string> }> =>
  (ctx, next) => {
    if (vary !== "") {
      ctx.res.setHeader("Vary", vary);
    }
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

/** The app of one interface. */
export type App = { readonly callback: () => Listener };

type AppOptions = Pick<HttpContext, "logger" | "observe" | "takePermit" | "trustedProxies"> & {
  /** Rejects requests without a valid key, and sets `ctx.state.caller`. */
  readonly checkKey: Middleware<ApiState>;
  /** The request headers that `checkKey` reads. */
  readonly keyHeaders: readonly string[];
  readonly presentError: PresentError;
  readonly endpoints: readonly Endpoint[];
  readonly pages?: readonly Page[];
  readonly webhooks?: readonly Webhook[];
};

/** Creates the app of one interface: every request passes the middleware below in its order. */
export const createApp = ({
  logger,
  observe,
  takePermit,
  trustedProxies = 0,
  checkKey,
  keyHeaders,
  presentError,
  endpoints,
  pages = [],
  webhooks = [],
}: AppOptions): App => {
  const app = new Koa<ApiState>();
  // Koa reports responses that it cannot write; errors of handlers never get here.
  app.on("error", (error: NodeJS.ErrnoException) => {
    logger.debug({ err: error }, "connection lost");
  });
  app.use(traceRequest);
  app.use(identifyRequest);
  app.use(observeRequest({ logger, observe, trustedProxies }));
  app.use(handleErrors({ logger, presentError }));
  app.use(checkHead);

  const router = new Router<ApiState>({ sensitive: true });
  const parseBody = readBody(BODY_KIB);
  const takeBatchTurn = limitBatches();
  for (const endpoint of endpoints) {
    const { method, path, missingKey, requestsPerSecond, isBatch, run } = endpoint;
    const steps = [
      missingKey !== undefined && requireKey(missingKey),
      checkKey,
      method !== "get" && requireWriteScope,
      runForAccounts,
      requestsPerSecond !== undefined &&
        limitRate({ takePermit, endpoint: `${method} ${path}`, requestsPerSecond }),
      isBatch === true && takeBatchTurn,
      method === "post" && parseBody,
      run,
    ].filter((step) => step !== false);
    // Composed once: the router composes what it is given for each request.
    router[method](path, setRoute(path, keyHeaders.join(", ")), compose<RequestContext>(steps));
  }
  for (const { path, run } of webhooks) {
    router.post(path, setRoute(path), runForVisitors(path, trustedProxies), run);
  }
  app.use(router.routes());
  // The links of a page are relative, so a trailing slash would change what they mean.
  const pageRouter = new Router<ApiState>({ sensitive: true, strict: true });
  for (const { path, run } of pages) {
    pageRouter.get(path, setRoute(path), runForVisitors(path, trustedProxies), run);
  }
  app.use(pageRouter.routes());
  app.use(rejectUnmatched);
  return { callback: () => app.callback() };
};
