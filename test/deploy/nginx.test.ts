import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { text } from "node:stream/consumers";
import type { ExecutionContext } from "ava";
import { findFreePort } from "../../program/probePort.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";

/* Runs nginx with deploy/nginx/impact.conf in front of both interfaces. */

const test = testWithDatabase();
const NGINX = process.env["TEST_NGINX"] ?? "/usr/sbin/nginx";

const NAMES = { standalone: "impact.example.org", store: "store.impact.example.org" };

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

type ProxyResponse = {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
};

const startProxy = async (
  t: ExecutionContext,
  upstreams: { readonly standalone: string; readonly store: string },
) => {
  const folder = await mkdtemp(join(tmpdir(), "impact-nginx-"));
  // Run by root, nginx stores bodies as another user.
  await chmod(folder, 0o755);
  const inFolder = (name: string): string => join(folder, name);
  const subject = `/CN=${NAMES.standalone}`;
  const names = `subjectAltName=DNS:${NAMES.standalone},DNS:${NAMES.store}`;
  execFileSync(
    "openssl",
    [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:P-256",
      "-nodes",
      "-days",
      "2",
      "-subj",
      subject,
      "-addext",
      names,
      "-keyout",
      inFolder("key.pem"),
      "-out",
      inFolder("cert.pem"),
    ],
    { stdio: "ignore" },
  );
  const [port, plainPort] = [await findFreePort(), await findFreePort()];
  const shipped = await readFile(
    new URL("../../deploy/nginx/impact.conf", import.meta.url),
    "utf8",
  );
  await writeFile(
    inFolder("impact.conf"),
    adapt(shipped, {
      "listen 443 ": `listen 127.0.0.1:${port} `,
      "listen 80;": `listen 127.0.0.1:${plainPort};`,
      "/etc/ssl/impact/fullchain.pem": inFolder("cert.pem"),
      "/etc/ssl/impact/privkey.pem": inFolder("key.pem"),
      "/var/log/nginx/impact.log": inFolder("access.log"),
      "server 127.0.0.1:8080;": `server ${new URL(upstreams.standalone).host};`,
      "server 127.0.0.1:8081;": `server ${new URL(upstreams.store).host};`,
    }),
  );
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((kind) => `${kind}_temp_path ${inFolder(kind)};`)
    .join(" ");
  await writeFile(
    inFolder("nginx.conf"),
    `daemon off; pid ${inFolder("pid")}; error_log ${inFolder("error.log")}; events {}\nhttp { ${temporary} include ${inFolder("impact.conf")}; }\n`,
  );
  const nginx = spawn(
    NGINX,
    ["-c", inFolder("nginx.conf"), "-p", folder, "-e", inFolder("error.log")],
    {
      stdio: "ignore",
    },
  );
  t.teardown(async () => {
    nginx.kill("SIGQUIT");
    if (nginx.exitCode === null) {
      await once(nginx, "exit");
    }
    await rm(folder, { recursive: true, force: true });
  });
  const ca = await readFile(inFolder("cert.pem"), "utf8");
  const call = async (
    name: keyof typeof NAMES,
    path: string,
    { headers = {}, body }: { headers?: Readonly<Record<string, string>>; body?: string } = {},
  ): Promise<ProxyResponse> => {
    const sent = request({
      host: "127.0.0.1",
      port,
      ca,
      servername: NAMES[name],
      path,
      method: body === undefined ? "GET" : "POST",
      agent: false,
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
    return {
      status: response.statusCode,
      headers: response.headers,
      body: await text(response),
    };
  };
  const isReady = async (): Promise<boolean> => {
    try {
      await call("standalone", "/healthz");
      return true;
    } catch {
      return false;
    }
  };
  while (!(await isReady())) {
    if (nginx.exitCode !== null) {
      throw new Error(await readFile(inFolder("error.log"), "utf8"));
    }
    await sleep(50);
  }
  return {
    call,
    plainUrl: `http://127.0.0.1:${plainPort}`,
    readLog: () => readFile(inFolder("access.log"), "utf8"),
  };
};

test("nginx passes on what both interfaces need", async (t) => {
  const { db } = t.context;
  const { apiKeyTest } = await createTestOrganization(db);
  const store = await createTestStore(db);
  const standalone = await startStandaloneApi(t, { db });
  const { url: storeUrl } = await startStoreApi(t, { db });
  const { call, plainUrl, readLog } = await startProxy(t, {
    standalone: standalone.url,
    store: storeUrl,
  });
  const key = { Authorization: apiKeyTest };

  const planted = await call("standalone", "/plant/trees", { headers: key, body: '{"count":2}' });
  t.is(planted.status, 200);
  t.is(planted.headers["strict-transport-security"], "max-age=31536000");
  t.is(planted.headers["cache-control"], "no-store");
  t.is(planted.headers["vary"], "Authorization");
  t.is(planted.headers["server"], "nginx");
  t.regex((await call("standalone", "/plant/trees", { headers: key })).body, /"count":2/u);

  const { api_key: storeKey = "", shop_name: shopName = "" } = store.test;
  for (const headers of [
    { api_key: storeKey, shop_name: shopName },
    { "api-key": storeKey, "shop-name": shopName },
    { api_key: storeKey, user_id: store.id },
  ]) {
    t.is((await call("store", "/app/api/verify?customer=ann", { headers })).status, 200);
  }
  t.notRegex(await readLog(), /customer|TEST-/u);

  const tooLong = "x".repeat(100_000);
  const byService = await call("standalone", "/plant/trees", { headers: key, body: tooLong });
  t.is(byService.status, 413);
  t.is(byService.body, '{"error":"the body must be at most 64 KiB"}');

  const plain = await fetch(`${plainUrl}/plant/trees`, { headers: key, redirect: "manual" });
  t.is(plain.status, 403);
  t.deepEqual(await plain.json(), { error: "use https" });
  const page = await fetch(`${plainUrl}/dashboard/x`, { redirect: "manual" });
  t.is(page.status, 301);
  t.regex(page.headers.get("Location") ?? "", /^https:/u);
});

test("nginx returns errors of its own in the form of the interface", async (t) => {
  const gone = `http://127.0.0.1:${await findFreePort()}`;
  const { call } = await startProxy(t, { standalone: gone, store: gone });

  const error = "the service is temporarily unavailable, try again";
  for (const [name, body] of [
    ["standalone", { error }],
    ["store", { error, code: "OVERLOADED" }],
  ] as const) {
    const response = await call(name, "/");
    t.is(response.status, 503);
    t.is(response.headers["retry-after"], "1");
    t.is(response.headers["content-type"], "application/json");
    t.is(response.headers["strict-transport-security"], "max-age=31536000");
    t.deepEqual(JSON.parse(response.body), body);
  }
});
