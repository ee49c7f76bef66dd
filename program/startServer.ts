import { createServer, STATUS_CODES } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ERROR_STATUS } from "./apiErrors.ts";
import type { HttpErrorCode, PresentError } from "./apiErrors.ts";
import { StartupError } from "./startupError.ts";

/** What answers requests: an app, or a handler. */
export type Listener = (request: IncomingMessage, response: ServerResponse) => unknown;

export type RunningServer = {
  /** `http://host:port`, with the port that was really taken. */
  readonly address: string;
  /** Takes no new connections, lets the requests under way finish until the deadline, then cuts the rest. */
  readonly close: (deadlineMs: number) => Promise<void>;
};

const CLIENT_ERRORS: Readonly<Record<string, readonly [HttpErrorCode, string]>> = {
  HPE_HEADER_OVERFLOW: ["headers_too_large", "the request's headers are too large"],
  ERR_HTTP_REQUEST_TIMEOUT: ["request_timeout", "the request took too long to arrive"],
};

/** Requests that node refuses before they reach the app get a JSON answer too. */
const answerRefusedByNode = (server: Server, presentError: PresentError): void => {
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (error.code === "ECONNRESET" || !socket.writable) {
      socket.destroy();
      return;
    }
    const [code, message] = CLIENT_ERRORS[error.code ?? ""] ?? [
      "request_malformed",
      "the request is not well-formed HTTP",
    ];
    const status = ERROR_STATUS[code];
    const body = JSON.stringify(presentError(code, message));
    const head = [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      "Content-Type: application/json; charset=utf-8",
      `Content-Length: ${Buffer.byteLength(body)}`,
      "Connection: close",
    ];
    socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
  });
  server.on("checkExpectation", (_request: IncomingMessage, response: ServerResponse) => {
    response
      .writeHead(ERROR_STATUS.expectation_failed, {
        "Content-Type": "application/json; charset=utf-8",
      })
      .end(
        JSON.stringify(
          presentError(
            "expectation_failed",
            "the only expectation that can be met is 100-continue",
          ),
        ),
      );
  });
};

const STARTUP_FAULTS: Readonly<Record<string, string>> = {
  EADDRINUSE: "is in use",
  EACCES: "may not be used by this user",
  EADDRNOTAVAIL: "is not an address of this machine",
  ENOTFOUND: "is not a name that can be resolved",
};

const listen = (
  server: Server,
  {
    host,
    port,
    setting,
  }: { readonly host: string; readonly port: number; readonly setting: string },
): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const fault = STARTUP_FAULTS[error.code ?? ""] ?? `cannot be used (${error.message})`;
      reject(
        new StartupError(
          `${host}:${port} ${fault}. Set ${setting} to a free port or HOST to another address.`,
          { cause: error },
        ),
      );
    });
    server.listen({ host, port }, resolve);
  });

const closeServer = async (server: Server, deadlineMs: number): Promise<void> => {
  const closed = new Promise((resolve) => {
    server.close(resolve);
  });
  // Connections become idle one by one as their requests finish.
  const sweep = setInterval(() => server.closeIdleConnections(), 50);
  const deadline = setTimeout(() => server.closeAllConnections(), deadlineMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(deadline);
};

/**
 * Serves HTTP with bounded patience.
 * @param setting the name of the setting that chose the port, for the message when it cannot be had
 * @throws StartupError when the port cannot be had
 */
export const startServer = async (
  listener: Listener,
  {
    presentError = (_code, message) => ({ error: message }),
    ...at
  }: {
    readonly host: string;
    readonly port: number;
    readonly setting: string;
    readonly presentError?: PresentError;
  },
): Promise<RunningServer> => {
  const server = createServer(
    {
      // A body is at most 64 KiB: half a minute is a very slow client.
      requestTimeout: 30_000,
      headersTimeout: 10_000,
      // Node looks for connections beyond these limits every 30 s otherwise.
      connectionsCheckingInterval: 2000,
      // Longer than the 60 s of usual load balancers, so that they close first.
      keepAliveTimeout: 65_000,
      maxHeaderSize: 16 * 1024,
    },
    listener,
  );
  answerRefusedByNode(server, presentError);
  await listen(server, at);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server that listens has an AddressInfo.
  const { port } = server.address() as AddressInfo;
  const host = at.host.includes(":") ? `[${at.host}]` : at.host;
  return {
    address: `http://${host}:${port}`,
    close: (deadlineMs) => closeServer(server, deadlineMs),
  };
};
