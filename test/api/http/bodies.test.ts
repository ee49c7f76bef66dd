import { once } from "node:events";
import { connect } from "node:net";
import type { Socket } from "node:net";
import type { ExecutionContext } from "ava";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { createWebhookReader } from "../../../modules/billing/stripe/createWebhookReader.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { eventually } from "../../support/programs.ts";
import { startStandaloneApi, startApiOf } from "../startStandaloneApi.ts";

const test = testWithDatabase();

/** Opens a connection until the test ends. */
const open = async (t: ExecutionContext, url: string): Promise<Socket> => {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  t.teardown(() => socket.destroy());
  await once(socket, "connect");
  return socket;
};

const head = (path: string, key: string, headers: string): string =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\nContent-Type: application/json\r\n${headers}\r\n\r\n`;

test("a client that disconnects while it sends a compressed body frees the places of its request", async (t) => {
  const { url, call, logged, key } = await startApiOf(t);
  const body = { items: [{ count: 1 }] };
  const lines = (path: string): number => logged().filter(({ route }) => route === path).length;
  // As many batches as an account may have at the same time.
  const paths = ["/plant/trees", ...Array.from({ length: 8 }, () => "/plant/trees/batch")];

  for (const [index, path] of paths.entries()) {
    const socket = await open(t, url);
    const started = gzipSync(JSON.stringify(body)).subarray(0, 10);
    const headers = "Content-Encoding: gzip\r\nContent-Length: 1000";
    socket.write(Buffer.concat([Buffer.from(head(path, key, headers)), started]));
    // The server has read the request when it has answered a later one of another connection.
    t.is((await call("GET", "/healthz")).status, 200);
    socket.destroy();
    await eventually(() => lines(path) === Math.max(1, index));
  }

  t.is((await call("POST", "/plant/trees", { key, body: { count: 1 } })).status, 200);
  t.is((await call("POST", "/plant/trees/batch", { key, body })).status, 200);
  const aborted = logged().filter((line) => line["aborted"] === true);
  t.is(aborted.length, 9);
});

test("damaged compressed data behind a body that is too large does no harm", async (t) => {
  const { call, key } = await startApiOf(t);
  for (const length of [85_920, 93_920, 101_920]) {
    const compressed = gzipSync("x".repeat(length));
    const { status } = await call("POST", "/plant/trees", {
      key,
      body: Buffer.concat([compressed.subarray(0, -12), Buffer.alloc(3000, 0xff)]),
      headers: { "Content-Encoding": "gzip" },
    });
    t.true(status === 413 || status === 400, String(status));
  }
  // An error that is not handled would end the process.
  t.is((await call("GET", "/healthz")).status, 200);
});

const asItIs = (body: Buffer): Buffer => body;

test("a content coding is accepted in any case and under its old name", async (t) => {
  const { call, key } = await startApiOf(t);
  for (const [encoding, compress] of [
    ["gzip", gzipSync],
    ["GZIP", gzipSync],
    ["X-GZip", gzipSync],
    [" identity , gzip", gzipSync],
    ["Deflate", deflateSync],
    ["BR", brotliCompressSync],
    ["Identity", asItIs],
    ["identity,identity", asItIs],
    [",", asItIs],
  ] as const) {
    const { status } = await call("POST", "/plant/trees", {
      key,
      body: compress(Buffer.from('{"count":4}')),
      headers: { "Content-Encoding": encoding },
    });
    t.is(status, 200, encoding);
  }
});

const statusesIn = (text: string): readonly string[] => text.match(/(?<=HTTP\/1\.1 )\d+/gu) ?? [];

const BYTES = 8 * 1024 * 1024;
const CHUNKED = "Transfer-Encoding: chunked";
const inOneChunk = `${BYTES.toString(16)}\r\n${"x".repeat(BYTES)}\r\n0\r\n\r\n`;

for (const [title, path, headers] of [
  ["chunked", "/plant/trees", CHUNKED],
  ["compressed", "/plant/trees", `${CHUNKED}\r\nContent-Encoding: gzip`],
  ["signed chunked", "/webhooks/stripe", CHUNKED],
  ["signed", "/webhooks/stripe", `Content-Length: ${BYTES}`],
] as const) {
  test(`a ${title} body that is too large is a 413, and the connection goes on`, async (t) => {
    const readStripeWebhook = createWebhookReader(["whsec_test"]);
    const { url, key } = await startApiOf(t, { readStripeWebhook });
    const socket = await open(t, url);
    let received = "";
    socket.setEncoding("latin1").on("data", (text: string) => {
      received += text;
    });

    socket.write(head(path, key, headers));
    socket.write(headers.startsWith(CHUNKED) ? inOneChunk : "x".repeat(BYTES));
    socket.write("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    await once(socket, "close");

    t.deepEqual(statusesIn(received), ["413", "200"]);
  });
}

/** The bytes of the largest signed body, and of all bodies in memory. */
const LARGEST = 512 * 1024;
const MEMORY = 128 * 1024 * 1024;

test("bodies that stall keep no place from others, with or without a key", async (t) => {
  const readStripeWebhook = createWebhookReader(["whsec_test"]);
  const { url, call, appRequests } = await startStandaloneApi(t, {
    ...t.context,
    readStripeWebhook,
  });
  const stalling = await createTestOrganization(t.context.db);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db);
  const before = appRequests();

  // As many as run at the same time in a process.
  for (let index = 0; index < 250; index += 1) {
    const headers = "Content-Length: 100";
    (await open(t, url)).write(head("/webhooks/stripe", "made-up", headers));
    (await open(t, url)).write(head("/plant/trees", stalling.apiKeyProd, headers));
  }
  await eventually(() => appRequests() === before + 500);

  t.is((await call("POST", "/plant/trees", { key, body: { count: 1 } })).status, 200);
  t.is((await fetch(`${url}/webhooks/stripe`, { method: "POST", body: "{}" })).status, 400);
});

test("a client whose bodies stall gets a 503 for more, and other clients are served", async (t) => {
  const readStripeWebhook = createWebhookReader(["whsec_test"]);
  const { url, appRequests } = await startStandaloneApi(t, {
    ...t.context,
    readStripeWebhook,
    trustedProxies: 1,
  });
  const send = async (address: string): Promise<Socket> => {
    const socket = await open(t, url);
    const headers = `Content-Length: ${LARGEST}\r\nX-Forwarded-For: ${address}`;
    socket.write(head("/webhooks/stripe", "made-up", headers));
    return socket;
  };
  const before = appRequests();
  // Half of the memory for bodies.
  const stalled = MEMORY / 2 / LARGEST;
  for (let index = 0; index < stalled; index += 1) {
    await send("192.0.2.1");
  }
  await eventually(() => appRequests() === before + stalled);

  const rejected = await send("192.0.2.1");
  const [text] = await once(rejected.setEncoding("latin1"), "data");
  t.regex(String(text), /^HTTP\/1\.1 503 [^]*"too many request bodies are arriving, try again"/u);
  const other = await send("192.0.2.2");
  other.write("x".repeat(LARGEST));
  const [answer] = await once(other.setEncoding("latin1"), "data");
  t.regex(String(answer), /^HTTP\/1\.1 400 /u);
});
