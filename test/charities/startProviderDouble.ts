import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";

/** A call as the provider saw it. */
type SeenCall = {
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly authorization: string | undefined;
};

/** What a call is answered with instead: a status with a body, a connection that is cut, or nothing at all. */
export type Fault =
  | { readonly status: number; readonly body?: string; readonly headers?: Record<string, string> }
  | "cut"
  | "hang";

export type ProviderDouble = {
  readonly url: string;
  /** Charities by their path, as the provider's own JSON. */
  readonly answers: Map<string, unknown>;
  /** Faults of the next calls, whatever they ask for. */
  readonly faults: Fault[];
  readonly calls: SeenCall[];
  readonly close: () => Promise<void>;
};

/**
 * A stand-in for the remote providers: it answers the paths that it was given, 404 for others, and fails as it is told.
 * A path may end with the query parameters that matter, sorted, as in `/change/nonprofits?search_term=red`.
 */
export const startProviderDouble = async (): Promise<ProviderDouble> => {
  const answers = new Map<string, unknown>();
  const faults: Fault[] = [];
  const calls: SeenCall[] = [];

  /** Of several that fit, the one that asks for most. */
  const find = (path: string, query: URLSearchParams): unknown => {
    const fitting = [...answers]
      .map(([known, answer]) => {
        const [knownPath, knownQuery = ""] = known.split("?");
        return { knownPath, wanted: [...new URLSearchParams(knownQuery)], answer };
      })
      .filter(
        ({ knownPath, wanted }) =>
          knownPath === path && wanted.every(([name, value]) => query.get(name) === value),
      )
      .toSorted((left, right) => right.wanted.length - left.wanted.length);
    return fitting[0]?.answer;
  };

  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    const url = new URL(request.url ?? "/", "http://double");
    const path = decodeURIComponent(url.pathname);
    calls.push({
      path,
      query: Object.fromEntries(url.searchParams),
      authorization: request.headers.authorization,
    });
    const fault = faults.shift();
    if (fault === "hang") {
      return;
    }
    if (fault === "cut") {
      request.socket.destroy();
      return;
    }
    if (fault) {
      response
        .writeHead(fault.status, { "content-type": "application/json", ...fault.headers })
        .end(fault.body ?? "{}");
      return;
    }
    const answer = find(path, url.searchParams);
    response
      .writeHead(answer === undefined ? 404 : 200, { "content-type": "application/json" })
      .end(JSON.stringify(answer ?? { message: "not found" }));
  };

  const server = createServer(handle).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") {
    throw new Error("The double has no port.");
  }
  return {
    url: `http://127.0.0.1:${address.port}`,
    answers,
    faults,
    calls,
    close: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
};
