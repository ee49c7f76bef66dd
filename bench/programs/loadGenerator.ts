import { once } from "node:events";
import { connect } from "node:net";
import type { Socket } from "node:net";
import type { LoadOptions } from "../support/runLoad.ts";
import { NUMBER } from "../support/runLoad.ts";
import { percentile } from "../support/statistics.ts";

/*
 * Sends requests in a closed loop over keep-alive connections, in a separate process. It parses HTTP itself, because a
 * general-purpose client would be the bottleneck.
 */

const HEADER_END = "\r\n\r\n";

/** Returns the first complete response in the received text, or null if it is incomplete. */
const parseResponse = (received: string): { status: number; length: number } | null => {
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

/** Opens a connection that reads into one buffer, bypassing Node's streams, to leave the CPU to the service. */
const openConnection = async (url: URL, onChunk: (chunk: string) => void): Promise<Socket> => {
  const socket = connect({
    host: url.hostname,
    port: Number(url.port),
    noDelay: true,
    onread: {
      buffer: Buffer.allocUnsafe(16_384),
      callback: (bytes, buffer) => {
        // In latin1, one character is one byte.
        onChunk(Buffer.from(buffer.buffer, buffer.byteOffset, bytes).toString("latin1"));
        return true;
      },
    },
  });
  await once(socket, "connect");
  return socket;
};

const run = async (options: LoadOptions) => {
  const url = new URL(options.url);
  const latenciesMs: number[] = [];
  let phase: "warm-up" | "measuring" | "done" = "warm-up";
  const startedAtMs = performance.now();
  let sent = 0;
  let plannedMs = 0;

  const compose = (): string => {
    const text = options.requests[sent % options.requests.length] ?? "";
    sent += 1;
    return text.replaceAll(NUMBER, String(sent).padStart(NUMBER.length, "0"));
  };

  /** Returns how long to wait before the next request of any connection. */
  const nextDelayMs = (): number => {
    plannedMs += 1000 / (options.requestsPerSecond ?? Number.POSITIVE_INFINITY);
    return startedAtMs + plannedMs - performance.now();
  };

  /** Sends one request after another over a new connection until the time is over. */
  const sendRequests = async (): Promise<void> => {
    const { promise: done, resolve, reject } = Promise.withResolvers<void>();
    let received = "";
    let sentAtMs = 0;
    const send = (): void => {
      sentAtMs = performance.now();
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
    const socket = await openConnection(url, (chunk) => {
      received += chunk;
      const response = parseResponse(received);
      if (!response) {
        return;
      }
      // Error responses say nothing about speed.
      if (response.status !== 200) {
        reject(new Error(`A request failed: ${received}`));
        return;
      }
      if (phase === "measuring") {
        latenciesMs.push(performance.now() - sentAtMs);
      }
      received = received.slice(response.length);
      if (phase === "done") {
        resolve();
      } else {
        sendNext();
      }
    });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("the service closed a connection")));
    sendNext();
    await done;
    socket.destroy();
  };

  let measuredFromMs = 0;
  let measuredMs = 0;
  setTimeout(() => {
    phase = "measuring";
    measuredFromMs = performance.now();
  }, options.warmUpMs);
  setTimeout(() => {
    phase = "done";
    measuredMs = performance.now() - measuredFromMs;
  }, options.warmUpMs + options.durationMs);
  await Promise.all(Array.from({ length: options.connections }, sendRequests));
  return {
    requestsPerSecond: (latenciesMs.length / measuredMs) * 1000,
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
  };
};

// The benchmark has ended before the load.
process.once("disconnect", () => process.exit());
process.once("message", (options: LoadOptions) => {
  void run(options).then((report) => process.send?.(report, () => process.disconnect()));
});
