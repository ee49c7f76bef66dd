import type { ExecutionContext } from "ava";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { createGunzip } from "node:zlib";
import { KEY_PREFIX } from "../../modules/accounts/apiKeys.rules.ts";
import type { Listener } from "../../runtime/server/openDoor.ts";
import { findFreePort } from "../../runtime/server/ports.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";
import { serveRequests } from "../support/server.ts";
import { adapted, CADDY, HAPROXY, MOVED_KEY, MOVED_SLUG, NGINX, startProxy } from "./startProxy.ts";
import type { NAMES, Proxy, ProxyKind, ProxyResponse, Sent } from "./startProxy.ts";

const test = testWithDatabase();

type Name = keyof typeof NAMES;

/** What no log may contain: keys of the interfaces, and the query and the certificate that the requests have. */
const SECRETS = new RegExp(
  ["[cC]ustomer", ...Object.values(KEY_PREFIX).flatMap((prefixes) => Object.values(prefixes))].join(
    "|",
  ),
  "u",
);

/** For what takes milliseconds, also on a busy machine. */
const DEADLINE_MS = 60_000;

/** Serves requests, and the proxy's probes, until the test ends. */
const serve = (t: ExecutionContext, listener: Listener): Promise<string> =>
  serveRequests(t, (request, response) =>
    request.url === "/readyz" ? response.end("{}") : listener(request, response),
  );

/** Sends a request, again if the proxy has no process for it: if the machine stands still, its probes fail for a moment. */
const callService = async (
  { call }: Pick<Proxy, "call">,
  name: Name,
  path: string,
  sent?: Sent,
): Promise<ProxyResponse> => {
  const response = await call(name, path, sent);
  return response.status === 503 ? callService({ call }, name, path, sent) : response;
};

const passesOn = test.macro(async (t, kind: ProxyKind, server: string | undefined) => {
  const { db } = t.context;
  const { apiKeyTest } = await createTestOrganization(db);
  const store = await createTestStore(db);
  const standalone = await startStandaloneApi(t, { db, trustedProxies: 1 });
  const { url: storeUrl } = await startStoreApi(t, { db });
  const proxy = await startProxy(t, kind, { standalone: standalone.url, store: storeUrl });
  const { call, open, plainUrl, logged } = proxy;
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
  t.is((await call("standalone", "/healthz?customer=ann")).headers["server"], server);
  await eventually(() => logged().includes("/healthz"));
  t.notRegex(logged(), SECRETS);
});

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
  429: { error: "too many requests from this address", code: "OVERLOADED", retryAfter: "1" },
} as const;

const checkOwnError = (
  t: ExecutionContext,
  name: Name,
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

const reportsOutage = test.macro(async (t, kind: ProxyKind, status: 502 | 503) => {
  const gone = `http://127.0.0.1:${await findFreePort()}`;
  const { call, logged } = await startProxy(t, kind, { standalone: gone, store: gone });
  for (const name of ["standalone", "store"] as const) {
    let response = await call(name, "/");
    // Caddy returns a 502 until its first probe has failed.
    while (response.status === 502 && response.status !== status) {
      response = await call(name, "/");
    }
    checkOwnError(t, name, response, status);
  }
  if (kind === NGINX) {
    // The log shows that no process was reached.
    await eventually(() => /"GET \/" 502 502 /u.test(logged()));
  }
});

/**
 * A service that was killed while it executed a request may have recorded it. A 503 of the proxy would say that it has not, so
 * that clients repeat it without an idempotency key.
 */
const reportsLostResponses = test.macro(async (t, kind: ProxyKind) => {
  let received = 0;
  const url = await serve(t, (request) =>
    request.resume().once("end", () => {
      received += 1;
      request.socket.destroy();
    }),
  );
  const proxy = await startProxy(t, kind, { standalone: url, store: url });
  for (const [name, path] of [
    ["standalone", "/plant/trees"],
    ["store", "/app/api/plant"],
  ] as const) {
    received = 0;
    const response = await callService(proxy, name, path, { body: '{"count":1}' });
    t.is(received, 1, `the proxy sends a write once (status ${response.status})`);
    checkOwnError(t, name, response, 502);
  }
});

/** The upstream sends the second part of a list only once the first one has reached the client. */
const streamsLists = test.macro(async (t, kind: ProxyKind) => {
  const unfinished: ServerResponse[] = [];
  const url = await serve(t, (_request, response) => {
    response.writeHead(200, { "Content-Type": "application/json" });
    response.write("[1");
    unfinished.push(response);
  });
  const { open } = await startProxy(t, kind, { standalone: url, store: url });
  for (const [name, path] of [
    ["standalone", "/plant/trees"],
    ["standalone", "/usage"],
    ["store", "/app/api/plant"],
  ] as const) {
    let response = await open(name, path);
    // As in `callService`.
    while (response.statusCode === 503) {
      response.resume();
      response = await open(name, path);
    }
    const [first] = await once(response, "data", { signal: AbortSignal.timeout(DEADLINE_MS) });
    t.is(String(first), "[1", path);
    unfinished.pop()?.end("]");
    await once(response, "end");
  }
});

/** With a limit of five requests, of which none is allowed again while the test runs. */
const limitsAddresses = test.macro(async (t, kind: ProxyKind) => {
  const gone = `http://127.0.0.1:${await findFreePort()}`;
  const { call, logged } = await startProxy(t, kind, { standalone: gone, store: gone });
  const responses: (readonly [Name, ProxyResponse])[] = [];
  for (let sent = 0; sent < 12; sent += 1) {
    const name = sent % 2 === 0 ? "standalone" : "store";
    responses.push([name, await call(name, "/?customer=ann")]);
  }
  t.true((responses[0]?.[1].status ?? 0) >= 502, "within the limit");
  for (const [name, response] of responses.slice(-2)) {
    checkOwnError(t, name, response, 429);
  }
  t.notRegex(logged(), SECRETS);
});

const RANDOM = "eu1_eu1-AbCdEfGhIjKlMnOpQrStUvWxYz012345678";

/**
 * The proxy in front of the default cell and the cell `eu1` finds the cell in a key, a public path or the query. What names
 * none, or an unknown one, is the default cell's.
 */
const routesByCell = test.macro(async (t, kind: ProxyKind) => {
  t.is(RANDOM.length, randomBytes(32).toString("base64url").length);
  const start = (name: string): Promise<string> =>
    serve(t, (_request, response) => response.end(name));
  const proxy = await startProxy(t, kind, {
    standalone: await start("default standalone"),
    store: await start("default store"),
    cell: { standalone: await start("eu1 standalone"), store: await start("eu1 store") },
  });
  const goesTo = async (cell: string, name: Name, path: string, sent?: Sent): Promise<void> => {
    const { body } = await callService(proxy, name, path, sent);
    t.is(body, `${cell} ${name}`, `${path} ${JSON.stringify(sent)}`);
  };

  for (const [key, cell] of [
    [`impact_prod_eu1_${RANDOM}`, "eu1"],
    [`impact_test_eu1_${RANDOM}`, "eu1"],
    [`impact_prod_${RANDOM}`, "default"],
    [`impact_prod_us9_${RANDOM}`, "default"],
    [`impact_prod_eu1_${RANDOM.slice(1)}`, "default"],
    ["eu1_key-of-another-system", "default"],
  ] as const) {
    await goesTo(cell, "standalone", "/plant/trees", { headers: { Authorization: key } });
  }
  for (const [key, cell] of [
    [`PROD-eu1-${RANDOM}`, "eu1"],
    [`TEST-eu1-${RANDOM}`, "eu1"],
    [`PROD-${RANDOM.replace("eu1_", "eu1-")}`, "default"],
    [`PROD-us9-${RANDOM}`, "default"],
  ] as const) {
    for (const name of ["api_key", "api-key"]) {
      await goesTo(cell, "store", "/app/api/plant", { headers: { [name]: key } });
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
    await goesTo(cell, "standalone", path);
  }
  for (const [name, path] of [
    ["standalone", "/webhooks/stripe"],
    ["standalone", "/planting/callback"],
    ["store", "/webhooks/privacy"],
  ] as const) {
    await goesTo("eu1", name, `${path}?cell=eu1`, { body });
    await goesTo("default", name, path, { body });
  }
  const headers = { Authorization: `impact_prod_eu1_${RANDOM}` };
  await goesTo("eu1", "standalone", "/plant/trees?cell=us9", { headers });

  if (kind === HAPROXY) {
    const moved = { Authorization: MOVED_KEY };
    await goesTo("eu1", "standalone", "/plant/trees", { headers: moved });
    await goesTo("eu1", "store", "/app/api/plant", { headers: { api_key: MOVED_KEY } });
    for (const path of ["", ".json", "/badge.svg"]) {
      await goesTo("eu1", "standalone", `/dashboard/${MOVED_SLUG}${path}`);
    }
    await goesTo("default", "standalone", "/dashboard/other-shop-k3v9m2qd");
  }
});

for (const [name, kind, server, outage] of [
  ["Caddy", CADDY, undefined, 503],
  ["HAProxy", HAPROXY, undefined, 503],
  ["nginx", NGINX, "nginx", 502],
] as const) {
  const title = (fact: string): string => `${name} ${fact}`;
  test(title("passes on what both interfaces need, and logs no secrets"), passesOn, kind, server);
  test(title("returns its own errors in the form of the interface"), reportsOutage, kind, outage);
  test(
    title("does not report a request without a response as unexecuted"),
    reportsLostResponses,
    kind,
  );
  test(title("does not collect lists"), streamsLists, kind);
}

test("Caddy sends each request to its cell", routesByCell, CADDY);
test("HAProxy sends each request, also of a moved account, to its cell", routesByCell, HAPROXY);

test(
  "nginx rejects requests beyond the limit of an address in the form of the interface",
  limitsAddresses,
  adapted(NGINX, { "rate=200r/s": "rate=1r/m", "burst=400": "burst=5" }),
);
test(
  "HAProxy rejects requests beyond the limit of an address in the form of the interface",
  limitsAddresses,
  adapted(HAPROXY, {
    "http_req_rate(2s)": "http_req_rate(1h)",
    "sc0_http_req_rate gt 400": "sc0_http_req_rate gt 5",
  }),
);
