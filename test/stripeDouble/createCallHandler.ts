import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { faultResponse } from "./faults.ts";
import type { Fault, Faults } from "./faults.ts";
import { createIdempotency } from "./idempotency.ts";
import { ErrorResponse, jsonResponse } from "./responses.ts";
import type { HttpResponse } from "./responses.ts";
import { prepareCall } from "./routes.ts";
import type { Prepared } from "./routes.ts";
import type { State } from "./state.ts";

type ObservedCall = Readonly<Record<"method" | "path" | "form", string>> & {
  readonly idempotencyKey: string | null;
};

/** Creates what the double observes, besides its state at Stripe. */
export const createObservations = () => {
  const calls: ObservedCall[] = [];
  const problems: string[] = [];
  return {
    calls,
    problems,
    /** The calls that a `hold` keeps: each function continues one. */
    held: new Set<() => void>(),
    /** The calls that a `hang` leaves without a response, while their clients stay connected. */
    hanging: new Set<ServerResponse>(),
    overlaps: 0,
  };
};

export type Observations = ReturnType<typeof createObservations>;

const LOST = new Set<Fault["kind"]>(["drop", "hang", "truncate"]);

const toResponse = ({ status, error, message, headers }: ErrorResponse): HttpResponse =>
  jsonResponse(status, { error: { ...error, message } }, headers);

/** Creates the function that handles one call of Stripe's API: authorization, faults, idempotency and locks. */
export const createCallHandler = ({
  state,
  faults,
  observations,
  secretKey,
}: {
  readonly state: State;
  readonly faults: Faults;
  readonly observations: Observations;
  readonly secretKey: string;
}) => {
  const executeOnce = createIdempotency(state.clock);
  const locks = new Set<string | symbol>();

  const untilReleased = async (): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    observations.held.add(resolve);
    await promise;
    observations.held.delete(resolve);
  };

  /** Executes the call while it holds its lock, if it needs one. */
  const executeLocked = async ({ lockKey, execute }: Prepared, fault: Fault | null) => {
    // Only calls that need a lock can wait for each other.
    const lock = lockKey?.() ?? Symbol("no lock");
    if (locks.has(lock)) {
      observations.overlaps += 1;
      throw new ErrorResponse(409, `Another request for ${String(lock)} is in progress.`);
    }
    locks.add(lock);
    try {
      await (fault?.kind === "hold" ? untilReleased() : delay(state.settings.latencyMs));
      return jsonResponse(200, execute());
    } finally {
      locks.delete(lock);
    }
  };

  /** Returns the response that the idempotency key repeats. What happened to a call that throws is not saved. */
  const executeSaved = async (prepared: Prepared, fault: Fault | null): Promise<HttpResponse> => {
    const savedError = fault?.kind === "server_error_saved" ? faultResponse(fault) : null;
    const response = await executeLocked(prepared, fault).catch((error: unknown) => {
      if (!(error instanceof ErrorResponse) || error.status === 409) {
        throw error;
      }
      return toResponse(error);
    });
    return savedError ?? response;
  };

  /** Returns the response, or null if the fault prevents one. */
  const respond = async (
    { method = "GET", headers }: IncomingMessage,
    { path, form }: { readonly path: string; readonly form: string },
    fault: Fault | null,
  ): Promise<HttpResponse | null> => {
    if (headers.authorization !== `Bearer ${secretKey}`) {
      // As Stripe, which quotes parts of the key.
      const quoted = headers.authorization?.replace(/^Bearer (\w{8})\w*(\w{4})$/u, "$1****$2");
      throw new ErrorResponse(401, `Invalid API Key provided: ${quoted}`);
    }
    const key = method === "POST" ? (headers["idempotency-key"]?.toString() ?? null) : null;
    const request = `${path}?${form}`;
    const replacement = fault ? faultResponse(fault) : null;
    if (fault && !fault.applied && (replacement || LOST.has(fault.kind))) {
      return replacement && fault.kind === "server_error_saved"
        ? executeOnce(key, request, () => Promise.resolve(replacement))
        : replacement;
    }
    const rejectedWith = fault?.kind === "reject_later" ? (fault.code ?? "archived_meter") : null;
    const prepared = prepareCall(
      { method, path },
      { state, form, event: { idempotencyKey: key, rejectedWith } },
    );
    const response = await executeOnce(key, request, () => executeSaved(prepared, fault));
    return replacement ?? response;
  };

  const respondToError = (error: unknown, call: string): HttpResponse => {
    if (error instanceof ErrorResponse && !error.message.startsWith("Unrecognized request URL")) {
      return toResponse(error);
    }
    const problem = `${call}: ${error instanceof Error ? error.message : String(error)}`;
    observations.problems.push(problem);
    console.error(`Stripe double: ${problem}`);
    // A 4xx, so that the client does not retry it forever.
    return error instanceof ErrorResponse
      ? toResponse(error)
      : jsonResponse(400, {
          error: { type: "invalid_request_error", message: `Double: ${problem}` },
        });
  };

  return async (
    request: IncomingMessage,
    response: ServerResponse,
    call: { readonly path: string; readonly form: string },
  ): Promise<void> => {
    const { method = "GET" } = request;
    const fault = faults.take({ method, ...call });
    const result = await respond(request, call, fault).catch((error: unknown) =>
      respondToError(error, `${method} ${call.path}`),
    );
    observations.calls.push({
      method,
      ...call,
      idempotencyKey: request.headers["idempotency-key"]?.toString() ?? null,
    });
    if (fault?.kind === "hang") {
      if (!response.closed) {
        observations.hanging.add(response);
        response.once("close", () => observations.hanging.delete(response));
      }
    } else if (fault?.kind === "truncate") {
      response.writeHead(200, { "content-type": "application/json", "content-length": 1000 });
      response.write('{"object": ', () => request.socket.destroy());
    } else if (result === null || fault?.kind === "drop") {
      request.socket.resetAndDestroy();
    } else {
      response
        .writeHead(result.status, { "request-id": state.nextId("req"), ...result.headers })
        .end(result.body);
    }
  };
};
