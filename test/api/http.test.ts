import { connect } from "node:net";
import { gzipSync } from "node:zlib";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { rawRequest } from "./rawRequest.ts";
import { startStandaloneApi } from "./startStandaloneApi.ts";

const test = testWithDatabase();

test("unknown paths are a JSON 404 for every method", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);
  for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "PROPFIND"]) {
    for (const path of [
      "/",
      "/plant",
      "/plant/trees/",
      "/Plant/trees",
      "/plant/trees/1",
      "//plant/trees",
      "/plant%2Ftrees",
      "/%ff",
      "/%",
      "/plant/trees;x",
      "/__proto__",
      "/docs/../package.json",
    ]) {
      t.is((await call(method, path)).status, 404, `${method} ${path}`);
    }
  }
});

test("a query string without a name and a value is no parameter, and an empty name is reported", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);

  for (const path of ["/dashboard_url", "/plant/trees"]) {
    t.is((await call("GET", `${path}?&&&`, { key })).status, 200, path);
    for (const query of ["=", "=x", "&=&"]) {
      const { status, body } = await call("GET", `${path}?${query}`, { key });
      t.is(status, 400, path + query);
      t.is(body["error"], "(empty name): unknown parameter");
    }
  }
});

test("a wrong method is a 405 that names the right ones, for those without a key too", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);

  for (const method of ["PUT", "PATCH", "DELETE", "PROPFIND"]) {
    const { status, headers, body } = await call(method, "/plant/trees");
    t.is(status, 405);
    t.is(headers.get("Allow"), "GET, HEAD, OPTIONS, POST");
    t.is(typeof body["error"], "string");
  }
  const refund = await call("GET", "/refund/trees");
  t.is(refund.status, 405);
  t.is(refund.headers.get("Allow"), "OPTIONS, POST");
  t.is((await call("HEAD", "/refund/trees")).status, 405);
});

test("OPTIONS tells the methods of a path", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);

  const { status, headers } = await call("OPTIONS", "/rescue/plastic_bottles");

  t.is(status, 204);
  t.is(headers.get("Allow"), "GET, HEAD, OPTIONS, POST");
});

test("a body over 64 KiB is a 413, announced, in pieces or compressed", async (t) => {
  const { call, url } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  const body = JSON.stringify({ count: 1, attribution: "x".repeat(64 * 1024) });

  const announced = await call("POST", "/plant/trees", { key, body });
  const compressed = await call("POST", "/plant/trees", {
    key,
    body: gzipSync(body),
    headers: { "Content-Encoding": "gzip" },
  });
  const inPieces = await rawRequest(
    url,
    `POST /plant/trees HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n`,
  );

  t.is(announced.status, 413);
  t.deepEqual(announced.body, { error: "the body must be at most 64 KiB" });
  t.is(compressed.status, 413);
  t.regex(inPieces, /^HTTP\/1\.1 413 /u);
});

test("a compressed body is read", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);

  const { status, body } = await call("POST", "/plant/trees", {
    key,
    body: gzipSync('{"count":4}'),
    headers: { "Content-Encoding": "gzip" },
  });

  t.is(status, 200);
  t.is(body["total_planted_trees"], 4);
});

const JSON_WANTED =
  "the body must be JSON in UTF-8, sent with the header Content-Type: application/json";

test("a wrong or missing content type is a 400 that says what to send", async (t) => {
  const { call, url } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  for (const contentType of [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json; charset=latin1",
    "application/json; charset=utf-16",
    "application/xml",
    "application/jsonp",
    "json",
    "",
  ]) {
    const { status, body } = await call("POST", "/plant/trees", {
      key,
      body: '{"count":1}',
      headers: { "Content-Type": contentType },
    });
    t.is(status, 400, contentType);
    t.is(body["error"], JSON_WANTED, contentType);
  }
  const without = await rawRequest(
    url,
    `POST /plant/trees HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{"count":1}`,
  );
  t.regex(without, /^HTTP\/1\.1 400 /u);
  t.true(without.includes(JSON_WANTED));
});

test("JSON is taken with a charset of UTF-8, however it is written", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  for (const contentType of [
    "application/json",
    "Application/JSON",
    "application/json;charset=utf-8",
    "application/json; charset=UTF-8",
    'application/json; charset="utf-8"',
    "application/json;",
  ]) {
    const { status } = await call("POST", "/plant/trees", {
      key,
      body: '{"count":1}',
      headers: { "Content-Type": contentType },
    });
    t.is(status, 200, contentType);
  }
});

test("a body that is not what its headers say is a 400", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  for (const encoding of ["gzip", "deflate", "br", "zstd", "nonsense"]) {
    const { status, body } = await call("POST", "/plant/trees", {
      key,
      body: '{"count":1}',
      headers: { "Content-Encoding": encoding },
    });
    t.is(status, 400, encoding);
    t.regex(String(body["error"]), /^the body cannot be read: /u);
  }
});

test("the request id is the client's where it is usable, else a new one", async (t) => {
  const { call } = await startStandaloneApi(t, t.context);
  const idFor = async (given?: string): Promise<string | null> =>
    (
      await call("GET", "/x", given === undefined ? {} : { headers: { "X-Request-Id": given } })
    ).headers.get("X-Request-Id");

  t.is(await idFor("order-1001/a"), "order-1001/a");
  t.is(await idFor("x".repeat(128)), "x".repeat(128));
  for (const unusable of [undefined, "", "x".repeat(129), "a b", "é"]) {
    t.regex((await idFor(unusable)) ?? "", /^[0-9a-f-]{36}$/u);
  }
});

test("an unexpected fault is a plain 500, logged once under the request's id", async (t) => {
  const { db } = t.context;
  const { call, logged } = await startStandaloneApi(t, {
    db,
    writer: {
      register: () => Promise.reject(new Error("disk full at /var/lib")),
      drain: () => Promise.resolve(),
      queueLength: () => 0,
    },
  });
  const { apiKeyProd: key } = await createTestOrganization(db);

  const { status, body } = await call("POST", "/plant/trees", {
    key,
    body: { count: 1 },
    headers: { "X-Request-Id": "broken" },
  });

  t.is(status, 500);
  t.deepEqual(body, { error: "internal server error" });
  const faults = logged().filter((line) => line["msg"] === "fault");
  t.is(faults.length, 1);
  t.like(faults[0], { requestId: "broken", err: { message: "disk full at /var/lib" } });
});

test("each request is one line of the log", async (t) => {
  const { call, logged } = await startStandaloneApi(t, t.context);
  const { id, apiKeyProd: key } = await createTestOrganization(t.context.db);
  await call("POST", "/plant/trees", { key, body: { count: 1 }, headers: { "X-Request-Id": "a" } });
  await call("GET", "/nothing/here", { headers: { "X-Request-Id": "b" } });
  await call("DELETE", "/plant/trees", { headers: { "X-Request-Id": "c" } });

  const lines = logged().filter((line) => ["a", "b", "c"].includes(String(line["requestId"])));
  t.is(lines.length, 3);
  t.like(lines[0], { method: "POST", route: "/plant/trees", status: 200, accountId: id });
  t.is(typeof lines[0]?.["durationMs"], "number");
  t.like(lines[1], { method: "GET", route: "unknown", status: 404 });
  t.like(lines[2], { method: "DELETE", route: "/plant/trees", status: 405 });
});

test("what is not HTTP gets a JSON answer too", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  const huge = `GET / HTTP/1.1\r\nHost: x\r\nX-Huge: ${"x".repeat(20_000)}\r\n\r\n`;

  for (const [bytes, status] of [
    ["nonsense\r\n\r\n", 400],
    ["GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400],
    ["GET / HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n", 400],
    [huge, 431],
  ] as const) {
    const received = await rawRequest(url, bytes);
    t.true(received.startsWith(`HTTP/1.1 ${status} `), received);
    t.regex(received, /\r\n\r\n\{"error":"[^"]+"\}$/u);
  }
});

test("an expectation is met, or refused with JSON", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  const post = (expectation: string): string =>
    `POST /plant/trees HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\nContent-Type: application/json\r\nContent-Length: 11\r\nExpect: ${expectation}\r\nConnection: close\r\n\r\n{"count":1}`;

  const met = await rawRequest(url, post("100-continue"));
  const refused = await rawRequest(url, post("the impossible"));

  t.regex(met, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK/u);
  t.regex(refused, /^HTTP\/1\.1 417 /u);
  t.true(refused.includes('{"error":"'));
});

test("a client that leaves in the middle of its body is no fault and records nothing", async (t) => {
  const { url, call, logged } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  const { port } = new URL(url);
  const socket = connect({ host: "127.0.0.1", port: Number(port) });
  socket.write(
    `POST /plant/trees HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\nX-Request-Id: gone\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"count":`,
    () => socket.destroy(),
  );
  while (!logged().some((line) => line["requestId"] === "gone")) {
    await new Promise((resolve) => {
      setTimeout(resolve, 10);
    });
  }

  t.false(logged().some((line) => line["msg"] === "fault"));
  t.is((await call("GET", "/plant/trees", { key })).body["total_planted_trees"], 0);
});
