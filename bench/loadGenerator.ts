import { once } from "node:events";
import { connect } from "node:net";
import type { Socket } from "node:net";
import type { LoadOrder, LoadReport } from "./support/runLoad.ts";
import { percentile } from "./support/statistics.ts";

/*
 * Sends POST requests in a closed loop over kept-alive connections, from a process of its own. It writes and reads the
 * few HTTP lines that it needs itself: with a general client, the client and not the service would be what is measured.
 */

const HEADER_END = "\r\n\r\n";

type Answer = { readonly status: number; readonly length: number };

/** The answer at the start of what was received, null while some of it is missing. */
const readAnswer = (received: string): Answer | null => {
  const headerEnd = received.indexOf(HEADER_END);
  if (headerEnd < 0) {
    return null;
  }
  const length = /\r\ncontent-length: (?<length>\d+)/iu.exec(received.slice(0, headerEnd + 2));
  if (length?.groups?.["length"] === undefined) {
    throw new Error(`An answer without a length: ${received.slice(0, 500)}`);
  }
  const total = headerEnd + HEADER_END.length + Number(length.groups["length"]);
  return received.length < total ? null : { status: Number(received.slice(9, 12)), length: total };
};

type Connection = {
  readonly socket: Socket;
  readonly onPiece: (callback: (piece: string) => void) => void;
};

/** Reads into one buffer and past Node's streams: what the generator saves, the service beside it has. */
const openConnection = async (host: string, port: number): Promise<Connection> => {
  let onPiece: ((piece: string) => void) | null = null;
  const socket = connect({
    host,
    port,
    noDelay: true,
    onread: {
      buffer: Buffer.allocUnsafe(16_384),
      callback: (bytes, buffer) => {
        // The answers are ASCII, so that characters are bytes.
        onPiece?.(Buffer.from(buffer.buffer, buffer.byteOffset, bytes).toString("latin1"));
        return true;
      },
    },
  });
  await once(socket, "connect");
  return {
    socket,
    onPiece: (callback) => {
      onPiece = callback;
    },
  };
};

const runLoad = async (order: LoadOrder): Promise<LoadReport> => {
  const { hostname, port, pathname } = new URL(order.url);
  const run = crypto.randomUUID();
  const latenciesMs: number[] = [];
  let sent = 0;
  let failures = 0;
  let sampleFailure: string | null = null;
  let phase: "warm-up" | "measured" | "over" = "warm-up";

  const compose = (): string => {
    const number = String(sent).padStart(10, "0");
    const key = order.keys[sent % order.keys.length] ?? "";
    const [body, headers] =
      order.shopName === undefined
        ? [
            `{"count":1,"attribution":"bench","metadata":{"order":"${number}"},"idempotency_key":"${run}-${number}"}`,
            `Authorization: ${key}\r\n`,
          ]
        : [
            `{"trees":1,"customer_name":"Ann Lee","customer_email":"ann@example.com","order_id":"#${number}"}`,
            `api_key: ${key}\r\nshop_name: ${order.shopName}\r\nIdempotency-Key: ${run}-${number}\r\n`,
          ];
    sent += 1;
    return (
      `POST ${pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\n${headers}` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}${HEADER_END}${body}`
    );
  };

  /** One request after the other until the time is over. */
  const keepSending = async ({ socket, onPiece }: Connection): Promise<void> => {
    let received = "";
    let startedAtMs = 0;
    const sendNext = (): void => {
      startedAtMs = performance.now();
      socket.write(compose());
    };
    await new Promise<void>((resolve, reject) => {
      socket.on("error", reject);
      socket.on("close", () => reject(new Error("the service closed a connection")));
      onPiece((piece) => {
        received += piece;
        const answer = readAnswer(received);
        if (!answer) {
          return;
        }
        if (answer.status !== 200) {
          failures += 1;
          sampleFailure ??= received;
        } else if (phase === "measured") {
          latenciesMs.push(performance.now() - startedAtMs);
        }
        received = received.slice(answer.length);
        if (phase === "over") {
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
    Array.from({ length: order.connections }, () => openConnection(hostname, Number(port))),
  );
  let cpu = process.cpuUsage();
  let measuredFromMs = 0;
  let measuredMs = 0;
  setTimeout(() => {
    phase = "measured";
    measuredFromMs = performance.now();
    cpu = process.cpuUsage();
  }, order.warmUpMs);
  setTimeout(() => {
    phase = "over";
    measuredMs = performance.now() - measuredFromMs;
    cpu = process.cpuUsage(cpu);
  }, order.warmUpMs + order.durationMs);
  await Promise.all(connections.map(keepSending));
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

const answer = async (order: LoadOrder): Promise<void> => {
  process.send?.(await runLoad(order));
  process.disconnect();
};

process.once("message", (order: LoadOrder) => void answer(order));
