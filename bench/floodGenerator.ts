import { once } from "node:events";
import { connect } from "node:net";
import type { FloodOptions, FloodReport } from "./support/runFlood.ts";

/*
 * Sends as many requests as the service takes, in a separate process: `connections` at the same time, each with
 * `pipelined` requests that do not wait for responses. When all responses have arrived, a connection starts again.
 */

const runFlood = async (options: FloodOptions): Promise<FloodReport> => {
  const { hostname, port } = new URL(options.url);
  const statuses: Record<string, number> = {};
  const count = (name: string): void => {
    statuses[name] = (statuses[name] ?? 0) + 1;
  };
  const compose = (): string => {
    const body = options.body.replace("{uuid}", crypto.randomUUID());
    return (
      `POST ${options.path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: ${options.key}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    );
  };
  const flood = (): Promise<void> =>
    new Promise((resolve) => {
      const socket = connect({ host: hostname, port: Number(port) });
      let outstanding = 0;
      const send = (): void => {
        outstanding = options.pipelined;
        socket.write(Array.from({ length: options.pipelined }, compose).join(""));
      };
      let rest = "";
      socket.setEncoding("latin1");
      socket.on("connect", send);
      socket.on("data", (chunk: string) => {
        const text = rest + chunk;
        const statusLine = /HTTP\/1\.1 (?<status>\d{3}) /gu;
        let end = 0;
        for (const match of text.matchAll(statusLine)) {
          count(match[1] ?? "");
          outstanding -= 1;
          end = match.index + match[0].length;
        }
        // A status line may be divided between two chunks.
        rest = text.slice(Math.max(end, text.length - 12));
        if (outstanding <= 0) {
          send();
        }
      });
      socket.on("error", () => count("lost"));
      socket.on("close", () => resolve());
      setTimeout(() => socket.destroy(), options.durationMs);
    });
  await Promise.all(Array.from({ length: options.connections }, flood));
  return { statuses };
};

// The benchmark has ended before the flood.
process.once("disconnect", () => process.exit());
const [options] = await once(process, "message");
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the message that runFlood sends.
const report = await runFlood(options as FloodOptions);
process.send?.(report, () => process.exit(0));
