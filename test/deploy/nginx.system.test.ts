import { readFile, writeFile } from "node:fs/promises";
import { findFreePort } from "../../runtime/server/probePort.ts";
import { testWithDatabase } from "../support/database.ts";
import {
  passesOn,
  reportsLostResponses,
  reportsOutage,
  SECRETS,
  streamsLists,
} from "./proxyCases.ts";
import type { ProxyKind } from "./startProxy.ts";
import { startProxy } from "./startProxy.ts";

/* Runs nginx with deploy/nginx/impact.conf in front of both interfaces. */

const test = testWithDatabase();
const PROGRAM = process.env["TEST_NGINX"] ?? "/usr/sbin/nginx";

const NGINX: ProxyKind = {
  config: "nginx/impact.conf",
  replacements: ({ port, plainPort, upstreams, inFolder }) => ({
    "listen 443 ": `listen 127.0.0.1:${port} `,
    "listen 80;": `listen 127.0.0.1:${plainPort};`,
    "/etc/ssl/impact/fullchain.pem": inFolder("cert.pem"),
    "/etc/ssl/impact/privkey.pem": inFolder("key.pem"),
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
    return [PROGRAM, "-c", inFolder("nginx.conf"), "-p", inFolder(""), "-e", "stderr"];
  },
  stopSignal: "SIGQUIT",
};

test("nginx passes on what both interfaces need", async (t) => {
  const { call, inFolder } = await passesOn(t, NGINX);
  t.is((await call("standalone", "/healthz")).headers["server"], "nginx");
  t.notRegex(await readFile(inFolder("access.log"), "utf8"), SECRETS);
});

test("nginx returns its own errors in the form of the interface", (t) =>
  reportsOutage(t, NGINX, 502));

test("nginx does not report a request without a response as unexecuted", (t) =>
  reportsLostResponses(t, NGINX));

test("nginx does not collect lists", (t) => streamsLists(t, NGINX));

test("nginx rejects requests beyond the limit of an address in the form of the interface", async (t) => {
  const gone = `http://127.0.0.1:${await findFreePort()}`;
  const slow: ProxyKind = {
    ...NGINX,
    replacements: (place) => ({
      ...NGINX.replacements(place),
      // No request is allowed again while the test runs.
      "rate=200r/s": "rate=1r/m",
      "burst=400": "burst=5",
    }),
  };
  const { call, inFolder } = await startProxy(t, slow, { standalone: gone, store: gone });
  const error = "too many requests from this address";
  const responses = [];
  for (let sent = 0; sent < 12; sent += 1) {
    responses.push(await call(sent % 2 === 0 ? "standalone" : "store", "/?customer=ann"));
  }
  t.is(responses[0]?.status, 502, "within the limit");
  for (const [last, body] of [
    [10, { error }],
    [11, { error, code: "OVERLOADED" }],
  ] as const) {
    const rejected = responses[last];
    t.is(rejected?.status, 429);
    t.is(rejected?.headers["retry-after"], "1");
    t.is(rejected?.headers["strict-transport-security"], "max-age=31536000");
    t.deepEqual(JSON.parse(rejected?.body ?? ""), body);
  }
  const accesses = await readFile(inFolder("access.log"), "utf8");
  t.regex(accesses, /"GET \/" 502 502 /u, "the log shows that no process was reached");
  t.notRegex(accesses + (await readFile(inFolder("error.log"), "utf8")), /ann/u);
});
