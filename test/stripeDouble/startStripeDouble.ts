import { EventEmitter, once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { createClock } from "./clock.ts";
import { createControl } from "./createControl.ts";
import type { Control, Seen } from "./createControl.ts";
import { createFaults, faultAnswer } from "./faults.ts";
import type { Fault } from "./faults.ts";
import { createIdempotencyStore } from "./idempotency.ts";
import type { Answer } from "./idempotency.ts";
import { Refusal } from "./refusal.ts";
import { prepareCall } from "./routes.ts";
import type { Prepared } from "./routes.ts";
import { createState } from "./state.ts";
import type { Settings } from "./state.ts";

const CONTROL_PATH = "/_double/";

export type StripeDouble = {
  /** For `STRIPE_API_BASE`. */
  readonly url: string;
  readonly secretKey: string;
  readonly control: Control;
  readonly close: () => Promise<void>;
};

export type StripeDoubleOptions = Partial<Settings> & {
  readonly host?: string;
  readonly port?: number;
  readonly secretKey?: string;
};

const jsonAnswer = (
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): Answer => ({
  status,
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(value),
});

const refusalAnswer = ({ status, error, message, headers }: Refusal): Answer =>
  jsonAnswer(status, { error: { ...error, message } }, headers);

/**
 * A stand-in for the part of Stripe that the service uses: it keeps state, follows Stripe's documented rules, refuses what
 * Stripe refuses, and fails in the ways that it is told to. `control` is also reachable from other processes:
 * `POST /_double/<function>` with the argument as JSON.
 */
export const startStripeDouble = async ({
  host = "127.0.0.1",
  port = 0,
  secretKey = "sk_test_double",
  ...settings
}: StripeDoubleOptions = {}): Promise<StripeDouble> => {
  const clock = createClock();
  const state = createState(clock, {
    summaryDelaySeconds: 0,
    gracePeriodSeconds: 3600,
    latencyMs: 1,
    ...settings,
  });
  const faults = createFaults();
  const idempotency = createIdempotencyStore(clock);
  const seen: Seen = {
    calls: [],
    problems: [],
    held: new EventEmitter(),
    overlaps: 0,
  };
  const control = createControl(state, faults, seen);
  const underWay = new Set<string>();
  const actions = new Map<string, (argument: never) => unknown>(Object.entries(control));

  const assertAuthorized = ({ headers }: IncomingMessage): void => {
    if (headers.authorization !== `Bearer ${secretKey}`) {
      throw new Refusal(401, "Invalid API Key provided.");
    }
  };

  /** Does the call, alone for what it is exclusive about, however long it takes. */
  const executeAlone = async (
    { exclusive, execute }: Prepared,
    fault: Fault | null,
  ): Promise<Answer> => {
    const lock = exclusive?.();
    if (lock !== undefined && underWay.has(lock)) {
      seen.overlaps += 1;
      throw new Refusal(409, `Another request for ${lock} is in progress.`);
    }
    if (lock !== undefined) {
      underWay.add(lock);
    }
    try {
      await (fault?.kind === "hold"
        ? once(seen.held, "release")
        : delay(state.settings.latencyMs + (fault?.delayMs ?? 0)));
      return jsonAnswer(200, execute());
    } finally {
      if (lock !== undefined) {
        underWay.delete(lock);
      }
    }
  };

  /** The proper answer, from the idempotency key's first result where there is one. */
  const execute = async (
    prepared: Prepared,
    key: string | null,
    request: string,
    fault: Fault | null,
  ): Promise<Answer> => {
    const saved = key === null ? null : idempotency.begin(key, request);
    if (saved) {
      return { ...saved, headers: { ...saved.headers, "idempotent-replayed": "true" } };
    }
    let answer: Answer;
    try {
      answer = await executeAlone(prepared, fault);
    } catch (error) {
      if (!(error instanceof Refusal) || error.status === 409) {
        if (key !== null) {
          idempotency.abandon(key);
        }
        throw error;
      }
      answer = refusalAnswer(error);
    }
    if (key !== null) {
      const keeps = fault?.kind === "server_error_saved" ? faultAnswer(fault) : null;
      idempotency.save(key, keeps ?? answer);
    }
    return answer;
  };

  /** The answer, or null where there is to be none. */
  const answerCall = async (
    request: IncomingMessage,
    url: URL,
    form: string,
    fault: Fault | null,
  ): Promise<Answer | null> => {
    assertAuthorized(request);
    const method = request.method ?? "GET";
    const key = method === "POST" ? (request.headers["idempotency-key"]?.toString() ?? null) : null;
    const instead = fault ? faultAnswer(fault) : null;
    const lost = fault?.kind === "drop" || fault?.kind === "hang" || fault?.kind === "truncate";
    if (!fault?.applied && (instead || lost)) {
      if (key !== null && instead && fault?.kind === "server_error_saved") {
        idempotency.begin(key, `${url.pathname}?${form}`);
        idempotency.save(key, instead);
      }
      return instead;
    }
    const rejectedWith = fault?.kind === "reject_later" ? (fault.code ?? "archived_meter") : null;
    const prepared = prepareCall(
      { method, path: url.pathname },
      { state, form, event: { idempotencyKey: key, rejectedWith } },
    );
    const answer = await execute(prepared, key, `${url.pathname}?${form}`, fault);
    return instead ?? answer;
  };

  const refuse = (error: unknown, call: string): Answer => {
    if (error instanceof Refusal && !error.message.startsWith("Unrecognized request URL")) {
      return refusalAnswer(error);
    }
    const problem = `${call}: ${error instanceof Error ? error.message : String(error)}`;
    seen.problems.push(problem);
    console.error(`Stripe double: ${problem}`);
    // A 4xx, so that nobody repeats it for ever.
    return error instanceof Refusal
      ? refusalAnswer(error)
      : jsonAnswer(400, {
          error: { type: "invalid_request_error", message: `Double: ${problem}` },
        });
  };

  const answerControl = (name: string, body: string): Answer => {
    const action = actions.get(name);
    if (!action) {
      return jsonAnswer(404, { error: `The double has no control ${name}.` });
    }
    try {
      return jsonAnswer(200, {
        result: Reflect.apply(action, null, [body ? JSON.parse(body) : {}]) ?? null,
      });
    } catch (error) {
      return jsonAnswer(400, { error: error instanceof Error ? error.message : String(error) });
    }
  };

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "/", "http://double");
    const body = await text(request);
    if (url.pathname.startsWith(CONTROL_PATH)) {
      const {
        status,
        headers,
        body: answer,
      } = answerControl(url.pathname.slice(CONTROL_PATH.length), body);
      response.writeHead(status, headers).end(answer);
      return;
    }
    const { method = "GET" } = request;
    const form = method === "GET" ? url.search.slice(1) : body;
    const fault = faults.take({ method, path: url.pathname, form });
    const answer = await answerCall(request, url, form, fault).catch((error: unknown) =>
      refuse(error, `${method} ${url.pathname}`),
    );
    const lost = answer === null || ["drop", "truncate", "hang"].includes(fault?.kind ?? "");
    seen.calls.push({
      method,
      path: url.pathname,
      form,
      idempotencyKey: request.headers["idempotency-key"]?.toString() ?? null,
      status: lost ? 0 : answer.status,
      replayed: answer?.headers["idempotent-replayed"] === "true",
    });
    if (fault?.kind === "hang") {
      return;
    }
    if (fault?.kind === "truncate") {
      response.writeHead(200, { "content-type": "application/json", "content-length": 1000 });
      response.write('{"object": ', () => request.socket.destroy());
      return;
    }
    if (answer === null || fault?.kind === "drop") {
      request.socket.resetAndDestroy();
      return;
    }
    response
      .writeHead(answer.status, { "request-id": state.nextId("req"), ...answer.headers })
      .end(answer.body);
  };

  const server = createServer((request, response) => {
    handle(request, response).catch(() => request.socket.destroy());
  });
  // Longer than any client keeps an idle connection: only a fault breaks one.
  server.keepAliveTimeout = 60_000;
  server.listen(port, host);
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") {
    throw new Error("The double has no port.");
  }
  return {
    url: `http://${host}:${address.port}`,
    secretKey,
    control,
    close: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
};
