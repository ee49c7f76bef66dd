import { createServer as createHttpServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { text } from "node:stream/consumers";
import type { ExecutionContext } from "ava";
import { listen } from "../support/server.ts";

export type Received = {
  readonly path?: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

export type Receiver = Awaited<ReturnType<typeof startReceiver>>;

export const answer =
  (status: number, headers: Readonly<Record<string, string>> = {}, body = "") =>
  (response: ServerResponse): void => {
    response.writeHead(status, headers).end(body);
  };

export const holdOpen = (): void => undefined;

/** Starts a client's server for webhooks on a free port until the test ends. */
export const startReceiver = async (
  t: ExecutionContext,
  {
    host = "127.0.0.1",
    port = 0,
    tls,
  }: {
    readonly host?: string;
    readonly port?: number;
    readonly tls?: { readonly key: string; readonly cert: string };
  } = {},
) => {
  const received: Received[] = [];
  let open = 0;
  let mostAtOnce = 0;
  let responder = answer(204);
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    open += 1;
    mostAtOnce = Math.max(mostAtOnce, open);
    response.on("close", () => {
      open -= 1;
    });
    const body = await text(request);
    const headers = Object.entries(request.headers).map(([name, value]) => [name, String(value)]);
    received.push({ path: request.url, headers: Object.fromEntries(headers), body });
    responder(response);
  };
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    handle(request, response).catch(() => response.destroy());
  };
  const server = tls ? createHttpsServer(tls, listener) : createHttpServer(listener);
  const boundPort = await listen(t, server, port, host);
  return {
    url: `${tls ? "https" : "http"}://${host}:${boundPort}/hook`,
    port: boundPort,
    /** The requests that have arrived, oldest first. */
    received: received as readonly Received[],
    mostAtOnce: () => mostAtOnce,
    /** Sets what the server does with requests from now on. By default it responds 204. */
    respond: (next: typeof responder): void => {
      responder = next;
    },
  };
};
