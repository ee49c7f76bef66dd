import Router from "@koa/router";
import type { RouterContext } from "@koa/router";
import Koa from "koa";
import type { Middleware } from "koa";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { accountModeKey } from "../../modules/records/owner.rules.ts";
import { runForClient } from "../../runtime/client.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { PresentError } from "../../runtime/errorStatus.ts";
import { Gate } from "../../runtime/gate.ts";
import { nameClient } from "../../runtime/server/openDoor.ts";
import type { Listener } from "../../runtime/server/openDoor.ts";
import { handleErrors } from "./handleErrors.ts";
import { clientAddress, observeRequest, traceRequest } from "./observeRequests.ts";
import { BODY_KIB, readBody } from "./readBody.ts";
import type { AppContext } from "../context.ts";
import { createDocument } from "../openapi/createDocument.ts";
import type { DocumentInfo } from "../openapi/createDocument.ts";
import { documentPages } from "../openapi/documentPages.ts";
import { runAt } from "./requestContext.ts";
import type { ApiState, Page, RequestContext } from "./requestContext.ts";
import type { Endpoint } from "./endpoint.ts";
import { HttpError } from "./httpError.ts";

export type App = { readonly callback: () => Listener };

const RATE_WINDOW_MS = 1000;

/** Each may take some ten megabytes until its response has been read. */
const CONCURRENT_BATCHES = 16;

/** Runs a request as one of a client, for whose turn it may wait before its body is read, and its queries as those of a group. */
const runAs = async (
  { req }: RequestContext,
  client: string,
  group: string,
  work: () => Promise<unknown>,
): Promise<void> => {
  const turn = nameClient(req, client);
  if (turn !== null) {
    await turn;
  }
  await runForClient(group, work);
};

/**
 * `/healthz`: the process responds. `/readyz`: so do the services it depends on, as of the latest check. A probe's timeout
 * therefore says something about this process only.
 */
const healthPages = (readReadiness: AppContext["readReadiness"]): readonly Page[] => [
  {
    path: "/healthz",
    run: (ctx) => {
      ctx.body = { status: "ok" };
    },
  },
  {
    path: "/readyz",
    run: (ctx) => {
      const readiness = readReadiness();
      ctx.status = readiness.status === "ok" ? 200 : 503;
      ctx.body = readiness;
    },
  },
];

type AppOptions = Pick<
  AppContext,
  "logger" | "observe" | "takePermit" | "trustedProxies" | "isTraced" | "readReadiness"
> & {
  /** Returns the caller whose key a request has. Throws an error if it has no valid one. */
  readonly checkKey: (ctx: RequestContext) => Promise<Caller>;
  readonly keyHeaders: readonly string[];
  readonly presentError: PresentError;
  readonly endpoints: readonly Endpoint[];
  readonly document: DocumentInfo;
  readonly pages?: readonly Page[];
};

const createPipeline = ({ checkKey, takePermit, keyHeaders }: AppOptions) => {
  const vary = keyHeaders.join(", ");
  const parseBody = readBody(BODY_KIB);
  const batches = new Gate({ places: CONCURRENT_BATCHES });

  const limitRate = async (bucket: string, requests: number): Promise<void> => {
    if (!(await takePermit(bucket, { requests, windowMs: RATE_WINDOW_MS }))) {
      throw new DomainError("rate_limited", "rate limit exceeded");
    }
  };

  return async (ctx: RequestContext, endpoint: Endpoint): Promise<void> => {
    ctx.res.setHeader("Vary", vary);
    const { method, path, missingKey, requestsPerSecond, isBatch, run } = endpoint;
    if (missingKey !== undefined && (ctx.req.headers.authorization ?? "") === "") {
      throw new HttpError("key_missing", missingKey);
    }
    const caller = await checkKey(ctx);
    ctx.state.caller = caller;
    if (method !== "get" && caller.scope !== "write") {
      throw new HttpError("key_read_only", "this API key is read-only");
    }
    const work = () =>
      method === "post" ? parseBody(ctx, () => run(ctx, caller)) : run(ctx, caller);
    const workInTurn = () => (isBatch === true ? runAt(ctx, caller, batches, work) : work());
    const name = accountModeKey(caller);
    await runAs(ctx, name, name, () =>
      requestsPerSecond === undefined
        ? workInTurn()
        : limitRate(`${caller.keyId} ${method} ${path}`, requestsPerSecond).then(workInTurn),
    );
  };
};

/** Returns the path of the request target; null if it cannot be parsed, as Koa's type does not say. */
const pathOf = ({ request }: RequestContext): string | null => {
  try {
    return request.path;
  } catch {
    return null;
  }
};

/** Several times what browsers send. */
const MAXIMUM_ACCEPT_LENGTH = 1000;

/**
 * Rejects a request whose target is neither a path nor a URL with one. The path of a valid one is parsed only once.
 *
 * Treats an `Accept` header that is too long as absent. Koa's parser, which Koa also uses for redirects, takes a time that
 * grows with the square of its length.
 */
const checkHead: Middleware<ApiState> = (ctx, next) => {
  if (pathOf(ctx)?.startsWith("/") !== true) {
    throw new HttpError("request_malformed", "the request target is not a valid URL");
  }
  const { headers } = ctx.req;
  if (headers.accept !== undefined && headers.accept.length > MAXIMUM_ACCEPT_LENGTH) {
    delete headers.accept;
  }
  return next();
};

/** Handles requests that match no route: 404 for an unknown path, 405 for an unknown method, 204 for OPTIONS. */
const rejectUnmatched = (ctx: RouterContext<ApiState>): void => {
  const layers = (ctx.matched ?? []).filter(({ methods }) => methods.length > 0);
  const [layer] = layers;
  if (layer === undefined) {
    throw new HttpError("path_not_found", "not found");
  }
  ctx.state.route = String(layer.path);
  const allowed = new Set(layers.flatMap(({ methods }) => methods)).add("OPTIONS");
  const allow = [...allowed].toSorted().join(", ");
  ctx.set("Allow", allow);
  if (ctx.method === "OPTIONS") {
    ctx.status = 204;
    return;
  }
  throw new HttpError("method_not_allowed", `method not allowed; allowed: ${allow}`);
};

export const createApp = (options: AppOptions): App => {
  const { logger, observe, trustedProxies, presentError } = options;
  const { endpoints, document, pages = [] } = options;
  const app = new Koa<ApiState>();
  // Koa reports responses that it cannot write; errors of handlers never get here.
  app.on("error", (error: NodeJS.ErrnoException) => {
    logger.debug({ err: error }, "connection lost");
  });
  if (options.isTraced) {
    app.use(traceRequest);
  }
  app.use(observeRequest(logger, observe, trustedProxies));
  app.use(handleErrors(logger, presentError));
  app.use(checkHead);

  const runEndpoint = createPipeline(options);
  /** Runs a request without a key as one of its address. Its queries wait among those of its route. */
  const runForVisitor = (ctx: RequestContext, route: string, work: () => unknown) =>
    runAs(ctx, clientAddress(ctx.req, trustedProxies) ?? "", route, async () => {
      await work();
    });
  const router = new Router<ApiState>({ sensitive: true });
  for (const endpoint of endpoints) {
    router[endpoint.method](endpoint.path, (ctx) => {
      ctx.state.route = endpoint.path;
      return runEndpoint(ctx, endpoint);
    });
  }
  // The links of a page are relative, so a trailing slash would change what they mean.
  const pageRouter = new Router<ApiState>({ sensitive: true, strict: true });
  for (const { method = "get", path, run } of [
    ...healthPages(options.readReadiness),
    ...pages,
    ...documentPages(() => createDocument(endpoints, document)),
  ]) {
    (method === "post" ? router : pageRouter)[method](path, (ctx) => {
      ctx.state.route = path;
      return runForVisitor(ctx, path, () => run(ctx));
    });
  }
  app.use(router.routes());
  app.use(pageRouter.routes());
  app.use(rejectUnmatched);
  return { callback: () => app.callback() };
};
