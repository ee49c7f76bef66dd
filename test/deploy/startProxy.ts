import { once } from "node:events";
import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import type { Agent } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { ExecutionContext } from "ava";
import { findFreePort } from "../../runtime/server/probePort.ts";
import { createTestCa } from "../support/createTestCa.ts";
import type { CertificateFiles } from "../support/createTestCa.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { spawnUntilEnd } from "../support/programs.ts";

export const NAMES = { standalone: "impact.example.org", store: "store.impact.example.org" };

/** The addresses of the service behind the proxy, and of that of another cell, `eu1`. */
type Addresses = { readonly standalone: string; readonly store: string };
export type Upstreams = Addresses & { readonly cell?: Addresses };

/** Where a proxy listens, and the files that it may use. */
type ProxyPlace = {
  readonly port: number;
  readonly plainPort: number;
  readonly upstreams: Addresses;
  readonly tls: CertificateFiles;
  readonly inFolder: (name: string) => string;
};

/** How to start one kind of proxy with the configuration of the repository. */
export type ProxyKind = {
  /** The configuration's path in `deploy/`. */
  readonly config: string;
  /** What replaces the names, addresses and limits of the configuration. */
  readonly replacements: (place: ProxyPlace) => Readonly<Record<string, string>>;
  /** The same for the examples of another cell. */
  readonly cellReplacements?: (cell: Addresses) => Readonly<Record<string, string>>;
  /** Writes further files and returns the command line. */
  readonly prepare: (place: ProxyPlace, configFile: string) => Promise<readonly string[]>;
  readonly stopSignal: NodeJS.Signals;
  /** Of a proxy that does not log to its standard error. */
  readonly logFiles?: readonly string[];
};

export type Sent = {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** By default, each request has a connection of its own. */
  readonly agent?: Agent;
};

export type ProxyResponse = {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
};

export type Proxy = {
  readonly call: (name: keyof typeof NAMES, path: string, sent?: Sent) => Promise<ProxyResponse>;
  /** Sends a request and returns the response before its body has arrived. */
  readonly open: (name: keyof typeof NAMES, path: string, sent?: Sent) => Promise<IncomingMessage>;
  readonly plainUrl: string;
  readonly inFolder: (name: string) => string;
  /** What the proxy has logged so far. */
  readonly logged: () => string;
};

/** Sends a request over TLS to a proxy on this machine, and returns the response before its body has arrived. */
const openThroughProxy = async (
  proxy: { readonly port: number; readonly ca: string },
  name: keyof typeof NAMES,
  path: string,
  { headers = {}, body, agent }: Sent = {},
): Promise<IncomingMessage> => {
  const sent = request({
    ...proxy,
    host: "127.0.0.1",
    servername: NAMES[name],
    path,
    method: body === undefined ? "GET" : "POST",
    agent: agent ?? false,
    headers: {
      Host: NAMES[name],
      ...(body === undefined
        ? {}
        : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) }),
      ...headers,
    },
  });
  sent.end(body);
  const [response] = await once(sent, "response");
  return response;
};

/** Returns the configuration with these texts in place of its own. Each of them must be in it. */
const adapt = (config: string, replacements: Readonly<Record<string, string>>): string => {
  let adapted = config;
  for (const [from, to] of Object.entries(replacements)) {
    if (!adapted.includes(from)) {
      throw new Error(`The configuration does not contain ${from}.`);
    }
    adapted = adapted.replaceAll(from, to);
  }
  return adapted;
};

const hostsOf = ({ standalone, store }: Addresses): Addresses => ({
  standalone: new URL(standalone).host,
  store: new URL(store).host,
});

/** Starts a proxy with its file in `deploy/` in front of both interfaces, until the test ends. */
export const startProxy = async (
  t: ExecutionContext,
  { config, replacements, cellReplacements, prepare, stopSignal, logFiles = [] }: ProxyKind,
  upstreams: Upstreams,
): Promise<Proxy> => {
  const folder = await makeTestFolder(t);
  const inFolder = (name: string): string => join(folder, name);
  const { certificate: caFile, issue } = createTestCa(folder);
  const place = {
    port: await findFreePort(),
    plainPort: await findFreePort(),
    upstreams: hostsOf(upstreams),
    tls: issue(NAMES.standalone, { names: Object.values(NAMES).map((name) => `DNS:${name}`) }),
    inFolder,
  };
  const { port, plainPort } = place;
  const shipped = await readFile(new URL(`../../deploy/${config}`, import.meta.url), "utf8");
  const configFile = inFolder("proxy.conf");
  const { cell } = upstreams;
  await writeFile(
    configFile,
    adapt(shipped, { ...replacements(place), ...(cell && cellReplacements?.(hostsOf(cell))) }),
  );
  const { logged, untilReady } = spawnUntilEnd(
    t,
    await prepare(place, configFile),
    { env: { ...process.env, HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder } },
    stopSignal,
  );
  const ca = await readFile(caFile, "utf8");
  const open: Proxy["open"] = (name, path, sent) =>
    openThroughProxy({ port, ca }, name, path, sent);
  const plainUrl = `http://127.0.0.1:${plainPort}`;
  await untilReady(() =>
    fetch(plainUrl, { redirect: "manual" }).then(
      () => true,
      () => false,
    ),
  );
  return {
    call: async (name, path, sent) => {
      const response = await open(name, path, sent);
      return {
        status: response.statusCode ?? 0,
        headers: response.headers,
        body: await text(response),
      };
    },
    open,
    plainUrl,
    inFolder,
    logged: () => [logged(), ...logFiles.map((name) => readFileSync(inFolder(name)))].join(""),
  };
};
