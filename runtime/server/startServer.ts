import { createServer, STATUS_CODES } from "node:http";
import type { Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setImmediate as afterReading } from "node:timers/promises";
import { ERROR_STATUS } from "../errorStatus.ts";
import type { HttpErrorCode, PresentError } from "../errorStatus.ts";
import { createRequestGate, openDoor } from "./openDoor.ts";
import type { Listener } from "./openDoor.ts";
import { StartupError } from "../errors.rules.ts";
import type { Gate } from "../gate.ts";

export type RunningServer = {
  /** `http://host:port`, with the port that was actually bound. */
  readonly url: string;
  /** From now on, a connection is closed after its response, which says so. */
  readonly startClosing: () => void;
  /** Stops accepting connections, waits for requests in progress until the deadline, then closes their connections. */
  readonly close: (deadlineMs: number) => Promise<void>;
};

/** Headers of every response. Responses that may be cached, such as dashboards, replace the first one. */
const DEFAULT_HEADERS = [
  ["Cache-Control", "no-store"],
  ["X-Content-Type-Options", "nosniff"],
] as const;

const CLIENT_ERRORS: Readonly<Record<string, readonly [HttpErrorCode, string]>> = {
  HPE_INVALID_URL: [
    "request_malformed",
    "the request target is malformed; characters beyond ASCII must be percent-encoded as UTF-8",
  ],
  HPE_HEADER_OVERFLOW: ["headers_too_large", "the request's headers are too large"],
  ERR_HTTP_REQUEST_TIMEOUT: ["request_timeout", "the request took too long to arrive"],
};

export type ServerOptions = {
  readonly host: string;
  readonly port: number;
  /** The settings that chose the port and the host, for the error message if they cannot be bound. */
  readonly setting: string;
  readonly hostSetting?: "HOST" | "METRICS_HOST";
  readonly presentError?: PresentError;
  /** Of the requests; several servers may share one. */
  readonly gate?: Gate;
  /** Further connections are closed immediately. */
  readonly maximumConnections?: number;
  readonly onRejectedConnection?: () => void;
  /** A client that accepts no data of a response for this time is disconnected. */
  readonly writeTimeoutMs?: number;
  /** The whole request must arrive in this time. */
  readonly requestTimeoutMs?: number;
};

/** A body is at most 1 MiB, so this is enough for any real client. */
const REQUEST_TIMEOUT_MS = 30_000;

/** Longer than the work of any request, which also counts while it neither reads nor writes. */
const WRITE_TIMEOUT_MS = 120_000;

const createReject =
  (presentError: PresentError) =>
  (
    response: ServerResponse,
    code: HttpErrorCode | "queue_full",
    message: string,
    headers: Readonly<Record<string, string>> = {},
  ): void => {
    const body = JSON.stringify(presentError(code, message));
    response
      .writeHead(ERROR_STATUS[code], {
        ...Object.fromEntries(DEFAULT_HEADERS),
        "Content-Type": "application/json; charset=utf-8",
        "Content-Length": Buffer.byteLength(body),
        ...headers,
      })
      .end(body);
  };

/** How long a client may take to read the response to a request that is not read any further, and to close its side. */
const LINGER_MS = 1000;

/** Sends a JSON body for requests that Node rejects before they reach the app. */
const respondToInvalidHttp = (server: Server, presentError: PresentError): void => {
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
      ...DEFAULT_HEADERS.map((header) => header.join(": ")),
      "Content-Type: application/json; charset=utf-8",
      `Content-Length: ${Buffer.byteLength(body)}`,
      "Connection: close",
    ];
    socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
    // This closes one side only: the client could go on sending, and Node reports a late request only once.
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once("close", () => clearTimeout(timer));
  });
};

const LISTEN_ERRORS: Readonly<Record<string, string>> = {
  EADDRINUSE: "is in use",
  EACCES: "is not permitted for this user",
  EADDRNOTAVAIL: "is not an address of this machine",
  ENOTFOUND: "cannot be resolved",
};

/** Connections that wait to be accepted. The system resets what exceeds it, and a busy process accepts them late. */
const BACKLOG = 4096;

const listen = (server: Server, { host, port, setting, hostSetting = "HOST" }: ServerOptions) =>
  new Promise<void>((resolve, reject) => {
    // Also when it listens, so that a connection that cannot be accepted does not end the process.
    server.on("error", (error: NodeJS.ErrnoException) => {
      const problem = LISTEN_ERRORS[error.code ?? ""] ?? `cannot be used (${error.message})`;
      reject(
        new StartupError(
          `${host}:${port} ${problem}. Set ${setting} to a free port or ${hostSetting} to another address.`,
          { cause: error },
        ),
      );
    });
    server.listen({ host, port, backlog: BACKLOG }, resolve);
  });

const closeServer = async (server: Server, deadlineMs: number): Promise<void> => {
  // Closing also closes idle connections. Right after the event loop has read its sockets, they have no unread request.
  await afterReading();
  const closed = new Promise((resolve) => {
    server.close(resolve);
  });
  // A connection becomes idle when its request finishes.
  const sweep = setInterval(
    () => void afterReading().then(() => server.closeIdleConnections()),
    50,
  );
  const deadline = setTimeout(() => server.closeAllConnections(), deadlineMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(deadline);
};

/** @throws StartupError if the port cannot be bound */
export const startServer = async (
  listener: Listener,
  options: ServerOptions,
): Promise<RunningServer> => {
  const { presentError = (_code, message) => ({ error: message }) } = options;
  const requestTimeout = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
  const reject = createReject(presentError);
  let isClosing = false;
  const enter = openDoor(
    (request, response) => {
      for (const [name, value] of DEFAULT_HEADERS) {
        response.setHeader(name, value);
      }
      return listener(request, response);
    },
    {
      gate: options.gate ?? createRequestGate(),
      isClosing: () => isClosing,
      reject: (response) => {
        const message = "too many requests at the same time, try again";
        reject(response, "queue_full", message, { "Retry-After": "1" });
      },
    },
  );
  const server = createServer(
    {
      requestTimeout,
      headersTimeout: Math.min(10_000, requestTimeout),
      // Node checks these timeouts only every 30 s by default.
      connectionsCheckingInterval: Math.min(2000, requestTimeout),
      // Longer than the 60 s of most load balancers, so that they close idle connections first.
      keepAliveTimeout: 65_000,
      maxHeaderSize: 16 * 1024,
      // HTTP/1.1 requires it, and the response of Node to a request without it has no body.
      requireHostHeader: false,
    },
    (request, response) =>
      request.headers.host === undefined && request.httpVersion === "1.1"
        ? reject(response, "request_malformed", "the header Host is missing", {
            Connection: "close",
          })
        : enter(request, response),
  );
  server.on("checkExpectation", (_request, response) => {
    const message = "unsupported Expect header; supported: 100-continue";
    reject(response, "expectation_failed", message);
  });
  // Node starts this time anew whenever the client accepts a part of what is written.
  server.timeout = options.writeTimeoutMs ?? WRITE_TIMEOUT_MS;
  if (options.maximumConnections !== undefined) {
    server.maxConnections = options.maximumConnections;
  }
  server.on("drop", () => options.onRejectedConnection?.());
  respondToInvalidHttp(server, presentError);
  await listen(server, options);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a listening TCP server has an AddressInfo.
  const { port } = server.address() as AddressInfo;
  return {
    url: serverUrl(options.host, port),
    startClosing: () => {
      isClosing = true;
    },
    close: (deadlineMs) => {
      isClosing = true;
      return closeServer(server, deadlineMs);
    },
  };
};

/** Returns the URL of a server that listens on an address and a port. */
export const serverUrl = (host: string, port: number): string =>
  `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
