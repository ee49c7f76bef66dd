import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { connectStripe } from "../../modules/billing/stripe/createStripeProcessor.ts";
import { listen } from "../support/server.ts";
import { createCallHandler, createObservations } from "./createCallHandler.ts";
import { createControl } from "./createControl.ts";
import { createFaults } from "./faults.ts";
import { jsonResponse } from "./responses.ts";
import type { HttpResponse } from "./responses.ts";
import { createState } from "./state.ts";
import type { Settings } from "./state.ts";

const CONTROL_PATH = "/_double/";

export type StripeDoubleOptions = Partial<Settings> & {
  readonly port?: number;
  readonly secretKey?: string;
};

/**
 * Starts a server that behaves like the part of Stripe that the service uses, until the test ends: it has state, follows
 * Stripe's documented rules, and fails as `control.addFault` says. Other processes reach `control` as
 * `POST /_double/<function>` with the argument as JSON.
 */
export const startStripeDouble = async (
  t: Pick<ExecutionContext, "teardown">,
  { port = 0, secretKey = "sk_test_double", ...settings }: StripeDoubleOptions = {},
) => {
  const state = createState({
    summaryDelaySeconds: 0,
    gracePeriodSeconds: 3600,
    latencyMs: 1,
    accountId: "acct_double",
    ...settings,
  });
  const faults = createFaults();
  const observations = createObservations();
  const control = createControl(state, faults, observations);
  const actions = new Map<string, (argument: never) => unknown>(Object.entries(control));
  const handleCall = createCallHandler({ state, faults, observations, secretKey });

  const callControl = async (name: string, body: string): Promise<HttpResponse> => {
    const action = actions.get(name);
    if (!action) {
      return jsonResponse(404, { error: `The double has no control ${name}.` });
    }
    try {
      const result: unknown = await Reflect.apply(action, null, [body ? JSON.parse(body) : {}]);
      return jsonResponse(200, { result: result ?? null });
    } catch (error) {
      return jsonResponse(400, { error: error instanceof Error ? error.message : String(error) });
    }
  };

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname: path, search } = new URL(request.url ?? "/", "http://double");
    const body = await text(request);
    if (path.startsWith(CONTROL_PATH)) {
      const result = await callControl(path.slice(CONTROL_PATH.length), body);
      response.writeHead(result.status, result.headers).end(result.body);
      return;
    }
    await handleCall(request, response, {
      path,
      form: request.method === "GET" ? search.slice(1) : body || search.slice(1),
    });
  };

  const server = createServer((request, response) => {
    handle(request, response).catch(() => request.socket.destroy());
  });
  // Longer than clients keep an idle connection, so that only a fault closes one.
  server.keepAliveTimeout = 60_000;
  const url = `http://127.0.0.1:${await listen(t, server, port)}`;
  const stripe = { apiBase: url, secretKey };
  return {
    url,
    secretKey,
    /** How the service connects to it. */
    stripe,
    /** Returns billing through it, which has been prepared. */
    openBilling: async (
      db: DatabasePool,
      options: Partial<Parameters<typeof connectStripe>[0]> = {},
    ) => {
      const billing = createBilling({ db, stripe: connectStripe({ ...stripe, ...options }) });
      await billing.prepare();
      return billing;
    },
    /** The same as settings. */
    env: { STRIPE_API_BASE: url, STRIPE_SECRET_KEY: secretKey },
    /** Shows the double's time. */
    clock: { now: () => new Date(control.now() * 1000) },
    control,
    /** Ends it before the test does. */
    close: async (): Promise<void> => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
};

export type StripeDouble = Awaited<ReturnType<typeof startStripeDouble>>;
