import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { createGunzip } from "node:zlib";
import type { ExecutionContext } from "ava";
import { KEY_PREFIX } from "../../modules/accounts/apiKeys.rules.ts";
import { findFreePort } from "../../runtime/server/probePort.ts";
import { startServer } from "../../runtime/server/startServer.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import type { NAMES, Proxy, ProxyKind, ProxyResponse, Sent } from "./startProxy.ts";
import { startProxy } from "./startProxy.ts";

/* What every proxy configuration in deploy/ must do. */

/** What no log may contain: keys of the interfaces, and the query and the certificate that `passesOn` asks for. */
export const SECRETS = new RegExp(
  ["[cC]ustomer", ...Object.values(KEY_PREFIX).flatMap((prefixes) => Object.values(prefixes))].join(
    "|",
  ),
  "u",
);

/** For what takes milliseconds, also on a busy machine. */
const DEADLINE_MS = 60_000;

/** The proxy passes on what both interfaces need, and answers plain HTTP by itself. */
export const passesOn = async (
  t: ExecutionContext<DatabaseContext>,
  kind: ProxyKind,
): Promise<Proxy> => {
  const { db } = t.context;
  const { apiKeyTest } = await createTestOrganization(db);
  const store = await createTestStore(db);
  const standalone = await startStandaloneApi(t, { db, trustedProxies: 1 });
  const { url: storeUrl } = await startStoreApi(t, { db });
  const proxy = await startProxy(t, kind, { standalone: standalone.url, store: storeUrl });
  const { call, open, plainUrl } = proxy;
  const key = { Authorization: apiKeyTest };

  const claimed = { ...key, "X-Forwarded-For": "203.0.113.7" };
  const planted = await call("standalone", "/plant/trees", {
    headers: claimed,
    body: '{"count":2}',
  });
  t.is(planted.status, 200);
  t.is(planted.headers["strict-transport-security"], "max-age=31536000");
  t.is(planted.headers["cache-control"], "no-store");
  t.is(planted.headers["vary"], "Authorization");
  const line = standalone.logged().find(({ method }) => method === "POST");
  t.is(line?.["clientAddress"], "127.0.0.1", "the proxy replaces what the client claims");
  t.regex((await call("standalone", "/plant/trees", { headers: key })).body, /"count":2/u);

  const { api_key: storeKey = "", shop_name: shopName = "" } = store.test;
  for (const headers of [
    { api_key: storeKey, shop_name: shopName },
    { "api-key": storeKey, "shop-name": shopName },
    { api_key: storeKey, user_id: store.id },
  ]) {
    t.is((await call("store", "/app/api/verify?customer=ann", { headers })).status, 200);
  }

  const largestBatch = '{"items":[{"count":1}]}'.padEnd(1024 * 1024);
  const recorded = await call("standalone", "/plant/trees/batch", {
    headers: key,
    body: largestBatch,
  });
  t.is(recorded.status, 200, "the largest body that the service reads");

  // These headers have more than 15 KiB, and Node reads 16.
  const note = "(".repeat(14_900);
  const metadata = { note };
  const items = [1, 2].map((count) => ({ count, metadata }));
  await call("standalone", "/plant/trees/batch", { headers: key, body: JSON.stringify({ items }) });
  const filter = `metadata=${encodeURIComponent(JSON.stringify(metadata))}`;
  const listed = await call("standalone", `/plant/trees?first=1&${filter}`, { headers: key });
  t.is(listed.status, 200, "a link to the next page that repeats a long filter");
  t.true(String(listed.headers["link"]).includes(note));

  const byProxy = await call("standalone", "/plant/trees", {
    headers: key,
    body: "x".repeat(2_000_000),
  });
  t.is(byProxy.status, 413);
  t.deepEqual(JSON.parse(byProxy.body), { error: "the body is too large" });

  const plain = await fetch(`${plainUrl}/plant/trees`, {
    headers: { ...key, Host: "impact.example.org" },
    redirect: "manual",
  });
  t.is(plain.status, 403);
  t.deepEqual(await plain.json(), { error: "use https" });
  for (const path of ["/dashboard/x", "/certificate/x"]) {
    const page = await fetch(`${plainUrl}${path}`, { redirect: "manual" });
    t.is(page.status, 301, path);
    t.is(page.headers.get("Location"), `https://impact.example.org${path}`);
  }

  const list = await call("standalone", "/plant/trees", { headers: key });
  t.is(list.headers["content-encoding"], undefined);
  for (const accept of ["application/json", "text/csv", "application/x-ndjson"]) {
    const headers = { ...key, Accept: accept, "Accept-Encoding": "gzip" };
    const compressed = await open("standalone", "/plant/trees", { headers });
    t.is(compressed.headers["content-encoding"], "gzip", accept);
    t.true((await text(compressed.pipe(createGunzip()))).includes(note), accept);
  }
  await call("standalone", "/certificate/secretOfCustomer");
  return proxy;
};

/** What a proxy itself returns: a 503 says that nothing was sent to the service, all else that it may have been executed. */
const OWN_ERRORS = {
  502: {
    error: "the service did not respond; the request may have been executed",
    code: "INTERNAL_ERROR",
    retryAfter: undefined,
  },
  503: {
    error: "the service is temporarily unavailable, try again",
    code: "OVERLOADED",
    retryAfter: "1",
  },
} as const;

const checkOwnError = (
  t: ExecutionContext,
  name: keyof typeof NAMES,
  response: ProxyResponse,
  status: keyof typeof OWN_ERRORS,
): void => {
  const { error, code, retryAfter } = OWN_ERRORS[status];
  t.is(response.status, status);
  t.is(response.headers["retry-after"], retryAfter);
  t.regex(response.headers["content-type"] ?? "", /^application\/json/u);
  t.is(response.headers["strict-transport-security"], "max-age=31536000");
  t.deepEqual(JSON.parse(response.body), name === "store" ? { error, code } : { error });
};

/** The proxy reports a service that is gone in the form of the interface. */
export const reportsOutage = async (
  t: ExecutionContext,
  kind: ProxyKind,
  status: keyof typeof OWN_ERRORS,
): Promise<void> => {
  const gone = `http://127.0.0.1:${await findFreePort()}`;
  const { call } = await startProxy(t, kind, { standalone: gone, store: gone });
  for (const name of ["standalone", "store"] as const) {
    let response = await call(name, "/");
    if (status === 503) {
      // Caddy returns a 502 until its first probe has failed.
      while (response.status === 502) {
        response = await call(name, "/");
      }
    }
    checkOwnError(t, name, response, status);
  }
};

/**
 * A service that was killed while it executed a request may have recorded it. A 503 of the proxy would say that it has not, so
 * that clients repeat it without an idempotency key.
 */
export const reportsLostResponses = async (t: ExecutionContext, kind: ProxyKind): Promise<void> => {
  let received = 0;
  const { url, close } = await startServer(
    (request, response) => {
      if (request.url === "/readyz") {
        response.end("{}");
        return;
      }
      request.resume().once("end", () => {
        received += 1;
        request.socket.destroy();
      });
    },
    { host: "127.0.0.1", port: 0, setting: "PORT" },
  );
  t.teardown(() => close(1000));
  const { call } = await startProxy(t, kind, { standalone: url, store: url });
  for (const [name, path] of [
    ["standalone", "/plant/trees"],
    ["store", "/app/api/plant"],
  ] as const) {
    received = 0;
    let response = await call(name, path, { body: '{"count":1}' });
    // If the machine stands still, the proxy's probes fail for a moment.
    while (response.status === 503) {
      response = await call(name, path, { body: '{"count":1}' });
    }
    t.is(received, 1, `the proxy sends a write once (status ${response.status})`);
    checkOwnError(t, name, response, 502);
  }
};

/**
 * The proxy passes on each part of a list as it arrives: the upstream sends the second part only once the first one has
 * reached the client.
 */
export const streamsLists = async (t: ExecutionContext, kind: ProxyKind): Promise<void> => {
  const unfinished: ServerResponse[] = [];
  const { url, close } = await startServer(
    ({ url: path }, response) => {
      response.writeHead(200, { "Content-Type": "application/json" });
      if (path === "/readyz") {
        response.end("{}");
        return;
      }
      response.write("[1");
      unfinished.push(response);
    },
    { host: "127.0.0.1", port: 0, setting: "PORT" },
  );
  t.teardown(() => close(1000));
  const { open } = await startProxy(t, kind, { standalone: url, store: url });
  for (const [name, path] of [
    ["standalone", "/plant/trees"],
    ["standalone", "/usage"],
    ["store", "/app/api/plant"],
  ] as const) {
    let response = await open(name, path);
    // If the machine stands still, the proxy's probes fail for a moment.
    while (response.statusCode === 503) {
      response.resume();
      response = await open(name, path);
    }
    const [first] = await once(response, "data", { signal: AbortSignal.timeout(DEADLINE_MS) });
    t.is(String(first), "[1", path);
    unfinished.pop()?.end("]");
    await once(response, "end");
  }
};

/**
 * Starts a proxy in front of the default cell and the cell `eu1`, and returns a function that says which of them, and of its
 * interfaces, responds.
 */
export const startCells = async (t: ExecutionContext, kind: ProxyKind) => {
  const start = async (name: string): Promise<string> => {
    const { url, close } = await startServer((_request, response) => response.end(name), {
      host: "127.0.0.1",
      port: 0,
      setting: "PORT",
    });
    t.teardown(() => close(1000));
    return url;
  };
  const { call } = await startProxy(t, kind, {
    standalone: await start("default standalone"),
    store: await start("default store"),
    cell: { standalone: await start("eu1 standalone"), store: await start("eu1 store") },
  });
  return async (name: keyof typeof NAMES, path: string, sent?: Sent): Promise<string> => {
    let response = await call(name, path, sent);
    // If the machine stands still, the proxy's probes fail for a moment.
    while (response.status === 503) {
      response = await call(name, path, sent);
    }
    const [cell = "", reached] = response.body.split(" ");
    t.is(reached, name, "each host has its interface");
    return cell;
  };
};

const RANDOM = "eu1_eu1-AbCdEfGhIjKlMnOpQrStUvWxYz012345678";

/** The proxy finds the cell in a key, a public path or the query. What names none, or an unknown one, is the default cell's. */
export const routesByCell = async (t: ExecutionContext, kind: ProxyKind): Promise<void> => {
  t.is(RANDOM.length, randomBytes(32).toString("base64url").length);
  const cellOf = await startCells(t, kind);
  for (const [key, cell] of [
    [`impact_prod_eu1_${RANDOM}`, "eu1"],
    [`impact_test_eu1_${RANDOM}`, "eu1"],
    [`impact_prod_${RANDOM}`, "default"],
    [`impact_prod_us9_${RANDOM}`, "default"],
    [`impact_prod_eu1_${RANDOM.slice(1)}`, "default"],
    ["eu1_key-of-another-system", "default"],
  ] as const) {
    t.is(
      await cellOf("standalone", "/plant/trees", { headers: { Authorization: key } }),
      cell,
      key,
    );
  }
  for (const [key, cell] of [
    [`PROD-eu1-${RANDOM}`, "eu1"],
    [`TEST-eu1-${RANDOM}`, "eu1"],
    [`PROD-${RANDOM.replace("eu1_", "eu1-")}`, "default"],
    [`PROD-us9-${RANDOM}`, "default"],
  ] as const) {
    for (const name of ["api_key", "api-key"]) {
      t.is(await cellOf("store", "/app/api/plant", { headers: { [name]: key } }), cell, key);
    }
  }
  const body = "{}";
  for (const [path, cell] of [
    ["/dashboard/eu1_green-shop-k3v9m2qd", "eu1"],
    ["/dashboard/eu1_green-shop-k3v9m2qd.json", "eu1"],
    ["/dashboard/eu1_green-shop-k3v9m2qd/badge.svg", "eu1"],
    ["/dashboard/eu1-shop-k3v9m2qd", "default"],
    ["/dashboard/us9_green-shop-k3v9m2qd", "default"],
    [`/certificate/eu1_${"0f".repeat(16)}`, "eu1"],
    [`/certificate/${"0f".repeat(16)}`, "default"],
    [`/media/logos/eu1_${"0f".repeat(32)}`, "eu1"],
    ["/media/simulated/eu1_site.svg", "default"],
    ["/healthz", "default"],
    ["/plant/trees?cell=us9", "default"],
  ] as const) {
    t.is(await cellOf("standalone", path), cell, path);
  }
  for (const path of ["/webhooks/stripe", "/planting/callback"]) {
    t.is(await cellOf("standalone", `${path}?cell=eu1`, { body }), "eu1", path);
    t.is(await cellOf("standalone", path, { body }), "default", path);
  }
  t.is(await cellOf("store", "/webhooks/privacy?cell=eu1", { body }), "eu1");
  t.is(await cellOf("store", "/webhooks/privacy", { body }), "default");
  const headers = { Authorization: `impact_prod_eu1_${RANDOM}` };
  t.is(await cellOf("standalone", "/plant/trees?cell=us9", { headers }), "eu1", "the key decides");
};
