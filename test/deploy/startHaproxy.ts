import { hash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import type { ExecutionContext } from "ava";
import { startProxy } from "./startProxy.ts";
import type { ProxyKind } from "./startProxy.ts";

const HAPROXY_PROGRAM = process.env["TEST_HAPROXY"] ?? "/usr/sbin/haproxy";

/** Of an account that has moved: a key of another system and a slug. */
export const MOVED_KEY = "old_0123456789abcdef";
export const MOVED_SLUG = "green-shop-k3v9m2qd";
const MOVED = [hash("sha256", MOVED_KEY), MOVED_SLUG];

/** HAProxy with deploy/haproxy/haproxy.cfg in front of one process. */
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
  prepare: async ({ inFolder }, configFile) => {
    await writeFile(inFolder("moved.map"), MOVED.map((name) => `${name} eu1\n`).join(""));
    const [certificate, key] = [inFolder("cert.pem"), inFolder("key.pem")];
    await writeFile(
      inFolder("impact.pem"),
      `${await readFile(certificate, "utf8")}${await readFile(key, "utf8")}`,
    );
    return [HAPROXY_PROGRAM, "-db", "-f", configFile];
  },
  stopSignal: "SIGTERM",
};

/** The ports of both interfaces of a process. */
type Ports = { readonly standalone: number; readonly store: number };

/**
 * Starts HAProxy in front of two API processes on the loopback interface, until the test ends.
 * @param replacements further texts of the configuration to replace
 */
export const startHaproxy = async (
  t: ExecutionContext,
  [first, second]: readonly [Ports, Ports],
  replacements: Readonly<Record<string, string>>,
) => {
  const kind: ProxyKind = {
    ...HAPROXY,
    replacements: (place) => ({
      ...HAPROXY.replacements(place),
      "10.0.0.2:8080": `127.0.0.1:${second.standalone}`,
      "10.0.0.2:8081": `127.0.0.1:${second.store}`,
      ...replacements,
    }),
  };
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
