import type { ExecutionContext } from "ava";
import { pino } from "pino";
import { createStandaloneApp } from "../../api/standalone/createStandaloneApp.ts";
import type { Page } from "../../api/http/requestContext.ts";
import type { Listener } from "../../runtime/server/openDoor.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createDeploymentName } from "../../modules/billing/holdUsage.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { TEMPORAL_ADDRESS } from "../support/programs.ts";
import { serve } from "../support/server.ts";
import { temporalAt, validateThrough } from "../support/temporalOnDemand.ts";
import type { OpenTemporal } from "../support/temporalOnDemand.ts";
import { createCaller, parseBody, readResponseChecker } from "./responseChecker.ts";
import type { CheckedResponse } from "./responseChecker.ts";
import { createTestContext } from "./testContext.ts";
import type { TestContextOptions } from "./testContext.ts";

export type ApiResponse = CheckedResponse;

export type Call = (
  method: string,
  path: string,
  options?: {
    readonly key?: string;
    /** Sent as JSON; strings and buffers are sent unchanged. */
    readonly body?: unknown;
    readonly headers?: Readonly<Record<string, string>>;
  },
) => Promise<ApiResponse>;

export type StandaloneApiOptions = TestContextOptions & {
  readonly openTemporal?: OpenTemporal;
  /** Null is that of the server. */
  readonly publicBaseUrl?: string | null;
  readonly demo?: readonly Page[];
};

/** Serves the standalone interface on a real port with a real database until the test ends. */
export const startStandaloneApi = async (
  t: ExecutionContext,
  {
    openTemporal = temporalAt(TEMPORAL_ADDRESS),
    publicBaseUrl = null,
    demo,
    ...options
  }: StandaloneApiOptions,
) => {
  const lines: string[] = [];
  const { db, clock = systemClock } = options;
  const getDeployment = await createDeploymentName({ db, clock });
  const own = { url: "" };
  const documentBaseUrl = publicBaseUrl ?? "/";
  const context = createTestContext(() => publicBaseUrl ?? own.url, {
    logger: pino({ level: "debug" }, { write: (line: string) => lines.push(line) }),
    validateCharity: validateThrough(openTemporal, getDeployment),
    ...options,
  });
  const app = createStandaloneApp({ ...context, documentBaseUrl }, demo);
  let appRequests = 0;
  const callback = (): Listener => {
    const listener = app.callback();
    return (request, response) => {
      appRequests += 1;
      return listener(request, response);
    };
  };
  const url = await serve(t, { callback });
  own.url = url;
  const variant = JSON.stringify(["standalone", documentBaseUrl]);
  const send = createCaller(t, url, await readResponseChecker(url, variant));
  const call: Call = (method, path, { key, body, headers = {} } = {}) =>
    send(method, path, { ...(key !== undefined && { Authorization: key }), ...headers }, body);
  return {
    url,
    call,
    /** Returns the lines of the log, parsed. */
    logged: () => lines.map(parseBody),
    /** Returns how many requests the app has received. */
    appRequests: () => appRequests,
  };
};

/** Serves the standalone interface for a new organization. */
export const startApiOf = async (
  t: ExecutionContext<Pick<DatabaseContext, "db">>,
  {
    organization,
    db = t.context.db,
    ...options
  }: Partial<StandaloneApiOptions> & {
    readonly organization?: Parameters<typeof createTestOrganization>[1];
  } = {},
) => {
  const api = await startStandaloneApi(t, { db, ...options });
  const created = await createTestOrganization(db, organization);
  const key = created.apiKeyProd;
  return {
    ...api,
    ...created,
    key,
    /** Calls with the production key. */
    get: (path: string) => api.call("GET", path, { key }),
    post: (path: string, body?: unknown) => api.call("POST", path, { key, body }),
  };
};
