import { createServer } from "node:http";
import type { IncomingHttpHeaders, IncomingMessage, RequestListener } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { ExecutionContext } from "ava";

/** What happens to a request on its way. */
export type Fault =
  /** The proxy responds itself. */
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    }
  /** The service handles the request, and the connection breaks before the response. */
  | "lost response"
  /** The service handles the request, and the connection breaks in the middle of the response. */
  | "cut response"
  /** The connection breaks before the service has the request. */
  | "lost request"
  /** There is no response. */
  | "silence";

export type SeenRequest = {
  readonly method: string | undefined;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
};

const readBody = async (request: IncomingMessage): Promise<Buffer> =>
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a request without an encoding yields buffers.
  Buffer.concat((await request.toArray()) as Buffer[]);

/** Starts a proxy before the service, as in production, that treats the first requests badly and forwards all others. */
export const startFaultyProxy = async (
  t: ExecutionContext,
  target: string,
  faults: readonly Fault[],
): Promise<{ readonly url: string; readonly seen: readonly SeenRequest[] }> => {
  const seen: SeenRequest[] = [];
  const ended = new AbortController();
  const handle = async (...[request, response]: Parameters<RequestListener>): Promise<void> => {
    const fault = faults[seen.length];
    const { method = "GET", url = "/", headers } = request;
    seen.push({ method, url, headers });
    const body = await readBody(request);
    if (fault === "silence") {
      return;
    }
    if (fault === "lost request") {
      request.socket.destroy();
      return;
    }
    if (typeof fault === "object") {
      response.writeHead(fault.status, fault.headers).end(fault.body ?? "");
      return;
    }
    const { host: _host, connection: _connection, ...forwarded } = headers;
    const answer = await fetch(`${target}${url}`, {
      method,
      redirect: "manual",
      signal: ended.signal,
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the client repeats no header.
      headers: forwarded as Record<string, string>,
      ...(method === "POST" ? { body } : {}),
    });
    const text = Buffer.from(await answer.arrayBuffer());
    if (fault === "lost response") {
      request.socket.destroy();
      return;
    }
    const { "transfer-encoding": _encoding, ...answered } = Object.fromEntries(answer.headers);
    response.writeHead(answer.status, answered);
    if (fault === "cut response") {
      response.write(text.subarray(0, text.length / 2), () => request.socket.destroy());
      return;
    }
    response.end(text);
  };
  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      if (!ended.signal.aborted) {
        t.fail(String(error));
      }
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => {
    ended.abort();
    server.close();
    server.closeAllConnections();
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server that listens has an AddressInfo.
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, seen };
};
