import { once } from "node:events";
import { connect } from "node:net";
import type { Socket } from "node:net";
import type { LoadOptions, LoadReport } from "./support/runLoad.ts";
import { percentile } from "./support/statistics.ts";

/*
 * Sends requests in a closed loop over keep-alive connections, in a separate process. It writes and parses HTTP
 * itself, because a general-purpose client would be the bottleneck.
 */

const HEADER_END = "\r\n\r\n";

type ParsedResponse = { readonly status: number; readonly length: number };

/** Returns the first complete response in the received text, or null if it is incomplete. */
const parseResponse = (received: string): ParsedResponse | null => {
  const headerEnd = received.indexOf(HEADER_END);
  if (headerEnd < 0) {
    return null;
  }
  const length = /\r\ncontent-length: (?<length>\d+)/iu.exec(received.slice(0, headerEnd + 2));
  if (length?.groups?.["length"] === undefined) {
    throw new Error(`Response without Content-Length: ${received.slice(0, 500)}`);
  }
  const total = headerEnd + HEADER_END.length + Number(length.groups["length"]);
  return received.length < total ? null : { status: Number(received.slice(9, 12)), length: total };
};

type Connection = {
  readonly socket: Socket;
  readonly onChunk: (callback: (chunk: string) => void) => void;
};

/** Opens a connection that reads into one buffer, bypassing Node's streams, to leave the CPU to the service. */
const openConnection = async (host: string, port: number): Promise<Connection> => {
  let onChunk: ((chunk: string) => void) | null = null;
  const socket = connect({
    host,
    port,
    noDelay: true,
    onread: {
      buffer: Buffer.allocUnsafe(16_384),
      callback: (bytes, buffer) => {
        // In latin1, one character is one byte.
        onChunk?.(Buffer.from(buffer.buffer, buffer.byteOffset, bytes).toString("latin1"));
        return true;
      },
    },
  });
  await once(socket, "connect");
  return {
    socket,
    onChunk: (callback) => {
      onChunk = callback;
    },
  };
};

/** Returns a function that returns the text of the next request. */
const createComposer = (options: LoadOptions): (() => string) => {
  const { hostname, port, pathname } = new URL(options.url);
  const runId = crypto.randomUUID();
  let sent = 0;
  return () => {
    const number = String(sent).padStart(10, "0");
    const key = options.keys[sent % options.keys.length] ?? "";
    const shopName = options.shopNames?.[sent % options.keys.length];
    const posted = options.posted?.bodies[sent % options.keys.length];
    if (options.method === "GET") {
      const path = options.paths?.[sent % options.keys.length] ?? pathname;
      sent += 1;
      const authorization = key === "" ? "" : `Authorization: ${key}\r\n`;
      return `GET ${path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\n${authorization}\r\n`;
    }
    const [body, headers] =
      shopName === undefined
        ? [
            posted ??
              `{"count":1,"attribution":"bench","metadata":{"order":"${number}"},"idempotency_key":"${runId}-${number}"}`,
            `Authorization: ${key}\r\n`,
          ]
        : [
            `{"trees":1,"customer_name":"Ann Lee","customer_email":"ann@example.com","order_id":"#${number}"}`,
            `api_key: ${key}\r\nshop_name: ${shopName}\r\nIdempotency-Key: ${runId}-${number}\r\n`,
          ];
    sent += 1;
    return (
      `POST ${pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\n${headers}` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}${HEADER_END}${body}`
    );
  };
};

/** Returns a function that returns how long to wait before the next request of any connection. */
const createPace = (requestsPerSecond: number | undefined): (() => number) => {
  let planned = 0;
  const firstPlannedAtMs = performance.now();
  return () => {
    if (requestsPerSecond === undefined) {
      return 0;
    }
    planned += 1;
    return firstPlannedAtMs + (planned / requestsPerSecond) * 1000 - performance.now();
  };
};

const runLoad = async (options: LoadOptions): Promise<LoadReport> => {
  const { hostname, port } = new URL(options.url);
  const expectedStatus = options.posted?.status ?? 200;
  const latenciesMs: number[] = [];
  let failures = 0;
  let sampleFailure: string | null = null;
  let phase: "warm-up" | "measuring" | "done" = "warm-up";

  const compose = createComposer(options);
  const nextDelayMs = createPace(options.requestsPerSecond);

  /** Sends one request after another until the time is over. */
  const sendRequests = async ({ socket, onChunk }: Connection): Promise<void> => {
    let received = "";
    let startedAtMs = 0;
    const send = (): void => {
      startedAtMs = performance.now();
      socket.write(compose());
    };
    const sendNext = (): void => {
      const delayMs = nextDelayMs();
      if (delayMs > 0) {
        setTimeout(send, delayMs);
      } else {
        send();
      }
    };
    await new Promise<void>((resolve, reject) => {
      socket.on("error", reject);
      socket.on("close", () => reject(new Error("the service closed a connection")));
      onChunk((chunk) => {
        received += chunk;
        const response = parseResponse(received);
        if (!response) {
          return;
        }
        if (response.status !== expectedStatus) {
          failures += 1;
          sampleFailure ??= received;
        } else if (phase === "measuring") {
          latenciesMs.push(performance.now() - startedAtMs);
        }
        received = received.slice(response.length);
        if (phase === "done") {
          resolve();
        } else {
          sendNext();
        }
      });
      sendNext();
    });
    socket.removeAllListeners("close");
    socket.destroy();
  };

  const connections = await Promise.all(
    Array.from({ length: options.connections }, () => openConnection(hostname, Number(port))),
  );
  let cpu = process.cpuUsage();
  let measuredFromMs = 0;
  let measuredMs = 0;
  setTimeout(() => {
    phase = "measuring";
    measuredFromMs = performance.now();
    cpu = process.cpuUsage();
  }, options.warmUpMs);
  setTimeout(() => {
    phase = "done";
    measuredMs = performance.now() - measuredFromMs;
    cpu = process.cpuUsage(cpu);
  }, options.warmUpMs + options.durationMs);
  await Promise.all(connections.map(sendRequests));
  const ascending = latenciesMs.toSorted((left, right) => left - right);
  return {
    requestsPerSecond: (latenciesMs.length / measuredMs) * 1000,
    p50Ms: percentile(ascending, 0.5),
    p99Ms: percentile(ascending, 0.99),
    failures,
    sampleFailure,
    cpuShare: (cpu.user + cpu.system) / 1000 / measuredMs,
  };
};

const run = async (options: LoadOptions): Promise<void> => {
  process.send?.(await runLoad(options), () => process.disconnect());
};

// The benchmark has ended before the load.
process.once("disconnect", () => process.exit());
process.once("message", (options: LoadOptions) => void run(options));
