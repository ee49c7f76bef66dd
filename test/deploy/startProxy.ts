import type { ExecutionContext } from "ava";
import { hash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import type { Agent } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { findFreePort } from "../../runtime/server/ports.ts";
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

export type Proxy = Awaited<ReturnType<typeof startProxy>>;
export type ProxyResponse = Awaited<ReturnType<Proxy["call"]>>;

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
) => {
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
  const open = (name: keyof typeof NAMES, path: string, sent?: Sent) =>
    openThroughProxy({ port, ca }, name, path, sent);
  const plainUrl = `http://127.0.0.1:${plainPort}`;
  await untilReady(() =>
    fetch(plainUrl, { redirect: "manual" }).then(
      () => true,
      () => false,
    ),
  );
  return {
    call: async (name: keyof typeof NAMES, path: string, sent?: Sent) => {
      const response = await open(name, path, sent);
      const { statusCode: status = 0, headers } = response;
      return { status, headers, body: await text(response) };
    },
    open,
    plainUrl,
    inFolder,
    logged: (): string =>
      [logged(), ...logFiles.map((name) => readFileSync(inFolder(name)))].join(""),
  };
};

const CADDY_PROGRAM = process.env["TEST_CADDY"] ?? "/usr/bin/caddy";
const HAPROXY_PROGRAM = process.env["TEST_HAPROXY"] ?? "/usr/sbin/haproxy";
const NGINX_PROGRAM = process.env["TEST_NGINX"] ?? "/usr/sbin/nginx";

export const CADDY: ProxyKind = {
  config: "caddy/Caddyfile",
  replacements: ({ port, plainPort, upstreams, tls: { certificate, key } }) => {
    const tls = `tls ${certificate} ${key}`;
    return {
      // Certificates come from a file, and Caddy's own API stays closed.
      "\tservers {": "\tadmin off\n\tauto_https disable_redirects\n\tservers {",
      "\nimpact.example.org {": `\nimpact.example.org:${port} {\n\tbind 127.0.0.1\n\t${tls}`,
      "\nstore.impact.example.org {": `\nstore.impact.example.org:${port} {\n\tbind 127.0.0.1\n\t${tls}`,
      "http://impact.example.org, http://store.impact.example.org {": `http://:${plainPort} {\n\tbind 127.0.0.1`,
      "127.0.0.1:8080": upstreams.standalone,
      "127.0.0.1:8081": upstreams.store,
      // It logs each request. Older releases log none otherwise, newer ones those whose responses break off.
      "format filter": "level DEBUG\n\t\tformat filter",
    };
  },
  cellReplacements: ({ standalone, store }) => ({
    "\t#@eu1": "\t@eu1",
    "\t#reverse_proxy @eu1": "\treverse_proxy @eu1",
    "\t#\timport upstream": "\t\timport upstream",
    "\t#}": "\t}",
    "10.1.0.1:8080": standalone,
    "10.1.0.1:8081": store,
  }),
  prepare: (_place, configFile) =>
    Promise.resolve([CADDY_PROGRAM, "run", "--config", configFile, "--adapter", "caddyfile"]),
  stopSignal: "SIGKILL",
};

/** Of an account that has moved: a key of another system and a slug. */
export const MOVED_KEY = "old_0123456789abcdef";
export const MOVED_SLUG = "green-shop-k3v9m2qd";
const MOVED = [hash("sha256", MOVED_KEY), MOVED_SLUG];

/** In front of one process. */
export const HAPROXY: ProxyKind = {
  config: "haproxy/haproxy.cfg",
  replacements: ({ port, plainPort, upstreams, inFolder }) => ({
    "log /dev/log local0": "log stderr format raw local0",
    // So that it needs few file descriptors.
    "maxconn 20000": "maxconn 2000",
    "bind :443 ssl crt /etc/ssl/impact/impact.pem": `bind 127.0.0.1:${port} ssl crt ${inFolder("impact.pem")}`,
    "bind :80": `bind 127.0.0.1:${plainPort}`,
    "/run/haproxy/admin.sock": inFolder("admin.sock"),
    "map(/etc/haproxy/moved.map)": `map(${inFolder("moved.map")})`,
    "10.0.0.1:8080": upstreams.standalone,
    "10.0.0.2:8080": upstreams.standalone,
    "10.0.0.1:8081": upstreams.store,
    "10.0.0.2:8081": upstreams.store,
  }),
  cellReplacements: ({ standalone, store }) => ({
    "-m str being_moved": "-m str being_moved eu1",
    "#backend impact_": "backend impact_",
    "#  server api1 10.1.0.1:8080": `  server api1 ${standalone}`,
    "#  server api1 10.1.0.1:8081": `  server api1 ${store}`,
  }),
  prepare: async ({ inFolder, tls: { certificate, key } }, configFile) => {
    await writeFile(inFolder("moved.map"), MOVED.map((name) => `${name} eu1\n`).join(""));
    await writeFile(
      inFolder("impact.pem"),
      `${await readFile(certificate, "utf8")}${await readFile(key, "utf8")}`,
    );
    return [HAPROXY_PROGRAM, "-db", "-f", configFile];
  },
  stopSignal: "SIGTERM",
};

export const NGINX: ProxyKind = {
  config: "nginx/impact.conf",
  replacements: ({ port, plainPort, upstreams, tls, inFolder }) => ({
    "listen 443 ": `listen 127.0.0.1:${port} `,
    "listen 80;": `listen 127.0.0.1:${plainPort};`,
    "/etc/ssl/impact/fullchain.pem": tls.certificate,
    "/etc/ssl/impact/privkey.pem": tls.key,
    "/var/log/nginx/impact.log": inFolder("access.log"),
    "/var/log/nginx/impact-error.log": inFolder("error.log"),
    "server 127.0.0.1:8080;": `server ${upstreams.standalone};`,
    "server 127.0.0.1:8081;": `server ${upstreams.store};`,
  }),
  prepare: async ({ inFolder }, configFile) => {
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
      .map((kind) => `${kind}_temp_path ${inFolder(kind)};`)
      .join(" ");
    await writeFile(
      inFolder("nginx.conf"),
      `daemon off; pid ${inFolder("pid")}; error_log stderr; events {}\nhttp { ${temporary} include ${configFile}; }\n`,
    );
    return [NGINX_PROGRAM, "-c", inFolder("nginx.conf"), "-p", inFolder(""), "-e", "stderr"];
  },
  stopSignal: "SIGQUIT",
  logFiles: ["access.log", "error.log"],
};

export const adapted = (
  kind: ProxyKind,
  replacements: Readonly<Record<string, string>>,
): ProxyKind => ({
  ...kind,
  replacements: (place) => ({ ...kind.replacements(place), ...replacements }),
});

export type Ports = { readonly standalone: number; readonly store: number };

export const choosePorts = async (): Promise<Ports> => ({
  standalone: await findFreePort(),
  store: await findFreePort(),
});

/**
 * Starts HAProxy in front of two API processes on this machine, until the test ends. Nothing limits the test's requests.
 * @param cell the ports of the cell `eu1`
 */
export const startHaproxy = async (
  t: ExecutionContext,
  [first, second]: readonly [Ports, Ports],
  cell?: Ports,
) => {
  const urlsOf = ({ standalone, store }: Ports): Addresses => ({
    standalone: `http://127.0.0.1:${standalone}`,
    store: `http://127.0.0.1:${store}`,
  });
  const kind = adapted(HAPROXY, {
    "10.0.0.2:8080": `127.0.0.1:${second.standalone}`,
    "10.0.0.2:8081": `127.0.0.1:${second.store}`,
    "acl is_exempt src 203.0.113.0/24": "acl is_exempt src 127.0.0.1",
  });
  const upstreams = { ...urlsOf(first), ...(cell && { cell: urlsOf(cell) }) };
  const proxy = await startProxy(t, kind, upstreams);
  return {
    ...proxy,
    /** Returns how often the proxy has noticed that a process is ready. */
    countStarts: (server: "api1" | "api2"): number =>
      proxy.logged().split(`impact_standalone/${server} is UP`).length - 1,
  };
};
