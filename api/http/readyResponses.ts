import type { Answer } from "../../program/server/limitConcurrency.ts";
import { logRequest } from "../middleware/observeRequest.ts";
import type { RequestLog } from "../middleware/observeRequest.ts";
import { requestIdOf } from "../middleware/identifyRequest.ts";
import { clientAddress } from "./clientAddress.ts";

/** A public response to GET that is in memory, the same for all clients. */
export type ReadyResponse = {
  /** The pattern of its route. */
  readonly route: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
  readonly body: Buffer;
};

/** Returns the response of a request target that is in memory. */
export type FindReadyResponse = (target: string) => ReadyResponse | undefined;

/**
 * Answers requests from memory, before the app: its middleware and routing cost more than such a response. The request gets
 * an id, a log line and its part of the metrics, as any other. Conditional requests are left to the app.
 */
export const answerFromMemory =
  (
    find: FindReadyResponse,
    { trustedProxies, ...log }: RequestLog & { readonly trustedProxies: number },
  ): Answer =>
  (request, response) => {
    const { headers, method, url } = request;
    if (
      method !== "GET" ||
      url === undefined ||
      headers["if-none-match"] !== undefined ||
      headers["if-modified-since"] !== undefined
    ) {
      return false;
    }
    const ready = find(url);
    if (ready === undefined) {
      return false;
    }
    const startedAtMs = performance.now();
    const requestId = requestIdOf(headers);
    response.writeHead(200, [...ready.headers, "X-Request-Id", requestId]);
    response.end(ready.body);
    logRequest(log, response, {
      requestId,
      method,
      route: ready.route,
      startedAtMs,
      caller: undefined,
      address: clientAddress(request, trustedProxies),
    });
    return true;
  };
