import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { text } from "node:stream/consumers";
import { findFreePort } from "../../runtime/server/probePort.ts";
import type { NAMES, Sent } from "./startProxy.ts";
import { adapt, createCertificate, openThroughProxy } from "./startProxy.ts";

export const HAPROXY_PROGRAM = process.env["TEST_HAPROXY"] ?? "/usr/sbin/haproxy";

export type HaproxyResponse = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
};

const isListening = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true));
    socket.once("error", () => resolve(false));
    socket.once("close", () => socket.destroy());
  });

/**
 * Runs HAProxy with deploy/haproxy/haproxy.cfg in front of two API processes.
 * @param ports of both interfaces of each process, on the loopback interface
 * @param replacements further texts of the configuration to replace
 */
export const startHaproxy = async (
  ports: readonly { readonly standalone: number; readonly store: number }[],
  replacements: Readonly<Record<string, string>> = {},
) => {
  const folder = await mkdtemp(join(tmpdir(), "impact-haproxy-"));
  const inFolder = (name: string): string => join(folder, name);
  createCertificate(inFolder);
  const ca = await readFile(inFolder("cert.pem"), "utf8");
  await writeFile(inFolder("impact.pem"), ca + (await readFile(inFolder("key.pem"), "utf8")));
  const [port, plainPort] = [await findFreePort(), await findFreePort()];
  const shipped = await readFile(
    new URL("../../deploy/haproxy/haproxy.cfg", import.meta.url),
    "utf8",
  );
  await writeFile(inFolder("moved.map"), "");
  const [first, second] = ports;
  await writeFile(
    inFolder("haproxy.cfg"),
    adapt(shipped, {
      "log /dev/log local0": "log stdout format raw local0",
      // So that it needs few file descriptors.
      "maxconn 20000": "maxconn 2000",
      "bind :443 ssl crt /etc/ssl/impact/impact.pem": `bind 127.0.0.1:${port} ssl crt ${inFolder("impact.pem")}`,
      "bind :80": `bind 127.0.0.1:${plainPort}`,
      "/run/haproxy/admin.sock": inFolder("admin.sock"),
      "map(/etc/haproxy/moved.map)": `map(${inFolder("moved.map")})`,
      "10.0.0.1:8080": `127.0.0.1:${first?.standalone}`,
      "10.0.0.2:8080": `127.0.0.1:${second?.standalone}`,
      "10.0.0.1:8081": `127.0.0.1:${first?.store}`,
      "10.0.0.2:8081": `127.0.0.1:${second?.store}`,
      ...replacements,
    }),
  );
  const haproxy = spawn(HAPROXY_PROGRAM, ["-db", "-f", inFolder("haproxy.cfg")], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  // A run that is interrupted ends without stopping it.
  process.once("exit", () => haproxy.kill());
  let log = "";
  for (const output of [haproxy.stdout, haproxy.stderr]) {
    output.setEncoding("utf8").on("data", (chunk: string) => {
      log += chunk;
    });
  }
  const stop = async (): Promise<void> => {
    if (haproxy.exitCode === null) {
      haproxy.kill("SIGTERM");
      await once(haproxy, "exit");
    }
    await rm(folder, { recursive: true, force: true });
  };
  while (!(await isListening(port))) {
    if (haproxy.exitCode !== null) {
      throw new Error(`HAProxy ended with code ${haproxy.exitCode}.\n${log}`);
    }
    await delay(50);
  }
  const call = async (
    name: keyof typeof NAMES,
    path: string,
    sent?: Sent,
  ): Promise<HaproxyResponse> => {
    const response = await openThroughProxy({ port, ca }, name, path, sent);
    return {
      status: response.statusCode ?? 0,
      headers: response.headers,
      body: await text(response),
    };
  };
  return {
    call,
    plainUrl: `http://127.0.0.1:${plainPort}`,
    movedMap: inFolder("moved.map"),
    adminSocket: inFolder("admin.sock"),
    /** Emits `data` with each part of the log. */
    output: haproxy.stdout,
    readLog: () => log,
    /** Returns how often the proxy has noticed that a process is ready. */
    countStarts: (server: "api1" | "api2"): number =>
      log.split(`impact_standalone/${server} is UP`).length - 1,
    stop,
  };
};
