import { systemClock } from "../../../runtime/clock.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { createEmptyDatabase, openTestPool, testWithDatabase } from "../../support/database.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { rawRequest } from "./rawRequest.ts";
import { startStandaloneApi, startApiOf } from "../startStandaloneApi.ts";
import { READY } from "../testContext.ts";
import { startDonationApi } from "../../charities/donations/donationSetup.ts";

const test = testWithDatabase();

const UNKNOWN_PATHS =
  "/plant /plant/trees// /docs/start.js/ /Plant/trees /plant/trees/1 //plant/trees /plant%2Ftrees /%ff /% /plant/trees;x /__proto__ /docs/../package.json";

test("an unknown path is a 404 in JSON for every method", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);
  for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "PROPFIND"]) {
    for (const path of UNKNOWN_PATHS.split(" ")) {
      t.is((await call(method, path)).status, 404, `${method} ${path}`);
    }
  }
});

test("a POST ignores all query parameters, those of its body's fields included", async (t) => {
  const { get, post } = await startApiOf(t);
  const body = { count: 1, idempotency_key: "k" };

  for (const query of "traceparent=00-1 _=1&_=2 =x count=9 idempotency_key=other %ff".split(" ")) {
    t.is((await post(`/plant/trees?${query}`, body)).status, 200, query);
  }
  t.is((await get("/plant/trees")).body["total_planted_trees"], 1);
});

test("a path with a slash at the end is the same endpoint", async (t) => {
  const { call, get, post } = await startApiOf(t);

  for (const { body } of [await post("/plant/trees/", { count: 2 }), await get("/plant/trees/")]) {
    t.is(body["total_planted_trees"], 2);
  }
  t.is((await call("PUT", "/plant/trees/")).status, 405);
});

test("a wrong method is a 405 that lists the allowed ones, as OPTIONS does, with or without a key", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);

  for (const method of ["PUT", "PATCH", "DELETE", "PROPFIND"]) {
    const { status, headers, body } = await call(method, "/plant/trees");
    t.is(status, 405);
    t.is(headers.get("Allow"), "GET, HEAD, OPTIONS, POST");
    t.is(typeof body["error"], "string");
  }
  for (const method of ["GET", "HEAD"]) {
    const refund = await call(method, "/refund/trees");
    t.is(refund.status, 405);
    t.is(refund.headers.get("Allow"), "OPTIONS, POST");
  }
  const options = await call("OPTIONS", "/rescue/plastic_bottles");
  t.is(options.status, 204);
  t.is(options.headers.get("Allow"), "GET, HEAD, OPTIONS, POST");
});

/** Starts an API, and returns it with what registers a tree with other headers. */
const startPlanting = async (t: DatabaseTest) => {
  const api = await startApiOf(t);
  const plant = (headers: Readonly<Record<string, string>>) =>
    api.call("POST", "/plant/trees", { key: api.key, body: '{"count":1}', headers });
  return { ...api, plant };
};

const JSON_REQUIRED =
  "the body must be JSON in UTF-8, sent with the header Content-Type: application/json";

test("a wrong or missing content type is a 400 that says what to send", async (t) => {
  const { plant, url, key } = await startPlanting(t);
  for (const contentType of [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json; charset=latin1",
    "application/json; charset=utf-16",
    "application/xml",
    "application/jsonp",
    "application/vnd.api+json",
    "application/json, application/json",
    "application/json; charset",
    "application/json; charset=",
    'application/json; charset="utf-8',
    "application/json; charset=utf-8; charset=latin1",
    "json",
    "",
  ]) {
    const response = await plant({ "Content-Type": contentType });
    t.like(response, { status: 400, body: { error: JSON_REQUIRED } }, contentType);
  }
  const without = await rawRequest(
    url,
    `POST /plant/trees HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{"count":1}`,
  );
  t.regex(without, /^HTTP\/1\.1 400 /u);
  t.true(without.includes(JSON_REQUIRED));
});

test("every spelling of a JSON content type in UTF-8 is accepted", async (t) => {
  const { plant } = await startPlanting(t);
  for (const contentType of [
    "application/json",
    "Application/JSON",
    "application/json;charset=utf-8",
    "application/json; charset=UTF-8",
    'application/json; charset="utf-8"',
    "application/json;",
    "application/json ; charset=utf-8 ;",
    "application/json;\tcharset=utf-8",
    "application/json; version=1; charset=utf-8",
    'application/json; profile="a;b=\\"c\\""; Charset="UTF\\-8"',
    "application/json; odata.metadata=minimal",
    "application/json;;charset=utf-8",
  ]) {
    t.is((await plant({ "Content-Type": contentType })).status, 200, contentType);
  }
});

test("a compressed body is a 400 that says so", async (t) => {
  const { plant } = await startPlanting(t);
  for (const encoding of ["gzip", "deflate", "br", "nonsense", "gzip, identity"]) {
    const response = await plant({ "Content-Encoding": encoding });
    t.like(response, { status: 400, body: { error: "the body must not be compressed" } }, encoding);
  }
  t.is((await plant({ "Content-Encoding": "Identity" })).status, 200);
});

test("the request id is the client's if it is well-formed, otherwise a new one", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);
  const idFor = async (given?: string): Promise<string | null> => {
    const options = given === undefined ? {} : { headers: { "X-Request-Id": given } };
    return (await call("GET", "/x", options)).headers.get("X-Request-Id");
  };

  t.is(await idFor("order-1001/a"), "order-1001/a");
  t.is(await idFor("x".repeat(128)), "x".repeat(128));
  for (const malformed of [undefined, "", "x".repeat(129), "a b", "é"]) {
    t.regex((await idFor(malformed)) ?? "", /^[0-9a-f-]{36}$/u);
  }
});

test("an unexpected error is a 500 without details, logged once with the request's id", async (t) => {
  const withoutTables = await openTestPool(t, await createEmptyDatabase(t));
  const { call, key, logged } = await startApiOf(t, {
    writer: createRegistrationWriter({ db: withoutTables, clock: systemClock }),
  });

  const headers = { "X-Request-Id": "broken" };
  const response = await call("POST", "/plant/trees", { key, body: { count: 1 }, headers });
  t.like(response, { status: 500, body: { error: "internal server error" } });
  const errors = logged().filter((line) => line["msg"] === "request failed");
  t.is(errors.length, 1);
  t.like(errors[0], { requestId: "broken", route: "/plant/trees" });
  t.regex(JSON.stringify(errors[0]?.["err"]), /does not exist/u);
});

test("each request is logged in one line", async (t) => {
  const { call, logged, id, key } = await startApiOf(t);
  await call("POST", "/plant/trees", { key, body: { count: 1 }, headers: { "X-Request-Id": "a" } });
  await call("GET", "/nothing/here", { headers: { "X-Request-Id": "b" } });
  await call("DELETE", "/plant/trees", { headers: { "X-Request-Id": "c" } });

  const lines = logged().filter((line) => ["a", "b", "c"].includes(String(line["requestId"])));
  t.is(lines.length, 3);
  t.like(lines[0], { method: "POST", route: "/plant/trees", status: 200, accountId: id });
  t.is(typeof lines[0]?.["durationMs"], "number");
  t.is(typeof lines[0]?.["keyId"], "string");
  t.like(lines[1], { method: "GET", route: "unknown", status: 404 });
  t.like(lines[2], { method: "DELETE", route: "/plant/trees", status: 405 });
  t.false(JSON.stringify(logged()).includes(key));
});

test("the logged address is the one that the first trusted proxy saw, whatever the client claims", async (t) => {
  const claimed = "10.0.0.1, 203.0.113.7";
  for (const [trustedProxies, forwardedFor, address] of [
    [0, "203.0.113.7", /127\.0\.0\.1$/u],
    [1, claimed, /^203\.0\.113\.7$/u],
    [2, `${claimed}, 192.0.2.9`, /^203\.0\.113\.7$/u],
    // Fewer addresses than proxies.
    [2, "203.0.113.7", /127\.0\.0\.1$/u],
    [1, "x".repeat(9000), /^x{45}$/u],
  ] as const) {
    const { call, logged } = await startStandaloneApi(t, { ...t.context, trustedProxies });
    await call("GET", "/x", { headers: { "X-Forwarded-For": forwardedFor } });
    t.regex(String(logged().at(-1)?.["clientAddress"]), address);
  }
});

test("probes are logged at the level debug, unless they fail", async (t) => {
  const { call, logged } = await startStandaloneApi(t, {
    ...t.context,
    readReadiness: () => ({ ...READY, status: "unavailable" }),
  });
  for (const path of ["/healthz", "/readyz", "/plant/trees"]) {
    await call("GET", path);
  }
  t.like(logged().slice(-3), [
    { route: "/healthz", level: 20 },
    { route: "/readyz", level: 30 },
    { route: "/plant/trees", level: 30 },
  ]);
});

test("invalid HTTP gets a JSON response that must not be stored", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  const huge = `GET / HTTP/1.1\r\nHost: x\r\nX-Huge: ${"x".repeat(20_000)}\r\n\r\n`;

  for (const [bytes, status] of [
    ["nonsense\r\n\r\n", 400],
    ["GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400],
    ["GET / HTTP/1.1\r\nAccept: */*\r\n\r\n", 400],
    ["GET / HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n", 400],
    ["GET / HTTP/1.1\r\nHost: x\r\nExpect: nothing\r\nConnection: close\r\n\r\n", 417],
    [huge, 431],
  ] as const) {
    const received = await rawRequest(url, bytes);
    t.true(received.startsWith(`HTTP/1.1 ${status} `), received);
    t.regex(received, /\r\n\r\n\{"error":"[^"]+"\}$/u);
    t.regex(received, /^Cache-Control: no-store\r$/mu);
    t.regex(received, /^X-Content-Type-Options: nosniff\r$/mu);
  }
});

test("a query that is not percent-encoded is a 400 that says what to send", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  for (const encoding of ["utf8", "latin1"] as const) {
    const target = "/plant/trees?attribution_key=café";
    const request = Buffer.from(`GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`, encoding);

    const response = await rawRequest(url, request);

    t.regex(response, /^HTTP\/1\.1 400 [^]*characters beyond ASCII must be percent-encoded/u);
  }
});

test("Expect: 100-continue works", async (t) => {
  const { url, key } = await startApiOf(t);

  const received = await rawRequest(
    url,
    `POST /plant/trees HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\nContent-Type: application/json\r\nContent-Length: 11\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n{"count":1}`,
  );

  t.regex(received, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK/u);
});

test("every response says that it must not be stored and that its type is right", async (t) => {
  const { call, key } = await startApiOf(t);
  const body = { count: 1 };

  for (const [{ status, headers }, vary] of [
    [await call("POST", "/plant/trees", { key, body }), "Authorization"],
    [await call("GET", "/plant/trees", { key }), "Authorization, Accept"],
    [await call("HEAD", "/plant/trees", { key }), "Authorization, Accept"],
    [await call("GET", "/plant/trees?created_at=x", { key }), "Authorization"],
    [await call("POST", "/plant/trees", { key: "unknown", body }), "Authorization"],
    [await call("GET", "/healthz"), null],
    [await call("GET", "/unknown"), null],
    [await call("PUT", "/plant/trees"), null],
  ] as const) {
    t.is(headers.get("Vary"), vary, String(status));
    t.is(headers.get("Cache-Control"), "no-store", String(status));
    t.is(headers.get("X-Content-Type-Options"), "nosniff", String(status));
  }
});

/** A header that fetch sends as the UTF-8 bytes of the key. */
const keyed = (key: string) => ({
  headers: { "Idempotency-Key": Buffer.from(key, "utf8").toString("latin1") },
});

test("a key in the header Idempotency-Key that is too long, not UTF-8, given twice or not that of the body is a 400 that records nothing", async (t) => {
  const { url, call, key } = await startApiOf(t);
  const body = '{"count":1,"idempotency_key":"one"}';

  for (const [headers, error] of [
    [
      "Idempotency-Key: other",
      /"error":"idempotency_key: must equal the header Idempotency-Key if both are given"/u,
    ],
    [`Idempotency-Key: ${"k".repeat(1001)}`, /Idempotency-Key: must be at most 1000 characters/u],
    ["Idempotency-Key: \xff\xfe", /must be well-formed UTF-8/u],
    ["Idempotency-Key: one\r\nIdempotency-Key: two", /must be given at most once/u],
  ] as const) {
    const response = await rawRequest(
      url,
      Buffer.from(
        `POST /plant/trees HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: ${key}\r\n` +
          `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n${headers}\r\n\r\n${body}`,
        "latin1",
      ),
    );

    t.regex(response, /^HTTP\/1\.1 400 /u);
    t.regex(response, error);
  }
  t.is((await call("GET", "/plant/trees", { key })).body["total_planted_trees"], 0);
});

test("donations and their refunds honor the header Idempotency-Key", async (t) => {
  const { call, test: key } = await startDonationApi(t);
  const donation = { key, body: { amount_cents: 500, ein: "530196605" }, ...keyed("gift-1") };
  const donated = await call("POST", "/charities/donate", donation);
  const donatedAgain = await call("POST", "/charities/donate", donation);
  const { donation_id } = donated.body;
  t.like(donatedAgain, { replayed: "true", body: { donation_id } });

  const refund = { key, body: { id: donation_id }, ...keyed("refund-1") };
  t.is((await call("POST", "/refund/donations", refund)).status, 200);
  const refundedAgain = await call("POST", "/refund/donations", refund);

  const body = { refunded_amount_cents: 500, total_donations: 0 };
  t.like(refundedAgain, { replayed: "true", body });
});
