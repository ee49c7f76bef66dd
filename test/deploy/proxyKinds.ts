import { hash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import type { ExecutionContext } from "ava";
import { findFreePort } from "../../runtime/server/probePort.ts";
import { startProxy } from "./startProxy.ts";
import type { ProxyKind } from "./startProxy.ts";

/* The three proxies with their configurations in deploy/. */

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

/** Returns a proxy with further replacements in its configuration. */
export const adapted = (
  kind: ProxyKind,
  replacements: Readonly<Record<string, string>>,
): ProxyKind => ({
  ...kind,
  replacements: (place) => ({ ...kind.replacements(place), ...replacements }),
});

/** The ports of both interfaces of a process. */
export type Ports = { readonly standalone: number; readonly store: number };

export const choosePorts = async (): Promise<Ports> => ({
  standalone: await findFreePort(),
  store: await findFreePort(),
});

/**
 * Starts HAProxy in front of two API processes on the loopback interface, until the test ends. Nothing limits the requests
 * of the test.
 * @param replacements further texts of the configuration to replace
 */
export const startHaproxy = async (
  t: ExecutionContext,
  [first, second]: readonly [Ports, Ports],
  replacements: Readonly<Record<string, string>> = {},
) => {
  const kind = adapted(HAPROXY, {
    "10.0.0.2:8080": `127.0.0.1:${second.standalone}`,
    "10.0.0.2:8081": `127.0.0.1:${second.store}`,
    "acl is_exempt src 203.0.113.0/24": "acl is_exempt src 127.0.0.1",
    ...replacements,
  });
  const proxy = await startProxy(t, kind, {
    standalone: `http://127.0.0.1:${first.standalone}`,
    store: `http://127.0.0.1:${first.store}`,
  });
  return {
    ...proxy,
    /** Returns how often the proxy has noticed that a process is ready. */
    countStarts: (server: "api1" | "api2"): number =>
      proxy.logged().split(`impact_standalone/${server} is UP`).length - 1,
  };
};
