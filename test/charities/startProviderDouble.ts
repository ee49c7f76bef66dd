import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ExecutionContext } from "ava";
import { listen } from "../support/server.ts";

type ReceivedCall = {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly authorization: string | undefined;
};

/** What happens to a call: an error response, a delayed response, none (`hang` reports the call), or a closed connection. */
export type Fault =
  | { readonly status: number; readonly body?: string; readonly headers?: Record<string, string> }
  | { readonly until: Promise<void> }
  | { readonly hang: () => void }
  | "cut";

/** A double of the remote providers: it serves the given paths, responds 404 to others, and injects faults. */
export const startProviderDouble = async (t: Pick<ExecutionContext, "teardown">) => {
  /** The provider's own JSON by path. A path may end with query parameters that a call must have. */
  const responses = new Map<string, unknown>();
  /** What happens to the next calls, whatever they request. */
  const faults: Fault[] = [];
  const calls: ReceivedCall[] = [];

  /** Of several matches, the one with the most query parameters wins. */
  const find = (path: string, query: URLSearchParams): unknown => {
    const fitting = [...responses]
      .map(([known, body]) => {
        const [knownPath, knownQuery = ""] = known.split("?");
        return { knownPath, wanted: [...new URLSearchParams(knownQuery)], body };
      })
      .filter(
        ({ knownPath, wanted }) =>
          knownPath === path && wanted.every(([name, value]) => query.get(name) === value),
      )
      .toSorted((left, right) => right.wanted.length - left.wanted.length);
    return fitting[0]?.body;
  };

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "/", "http://double");
    const path = decodeURIComponent(url.pathname);
    calls.push({
      path,
      query: Object.fromEntries(url.searchParams),
      authorization: request.headers.authorization,
    });
    const fault = faults.shift();
    if (typeof fault === "object" && "hang" in fault) {
      fault.hang();
      return;
    }
    if (fault === "cut") {
      request.socket.destroy();
      return;
    }
    if (fault && "status" in fault) {
      response
        .writeHead(fault.status, { "content-type": "application/json", ...fault.headers })
        .end(fault.body ?? "{}");
      return;
    }
    await fault?.until;
    const found = find(path, url.searchParams);
    response
      .writeHead(found === undefined ? 404 : 200, { "content-type": "application/json" })
      .end(JSON.stringify(found ?? { message: "not found" }));
  };

  const server = createServer((request, response) => void handle(request, response));
  return { url: `http://127.0.0.1:${await listen(t, server)}`, responses, faults, calls };
};

export type ProviderDouble = Awaited<ReturnType<typeof startProviderDouble>>;
