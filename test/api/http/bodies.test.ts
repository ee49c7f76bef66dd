import { once } from "node:events";
import { connect, Socket } from "node:net";
import { createServer, IncomingMessage, ServerResponse } from "node:http";
import { setImmediate as nextLoopIteration } from "node:timers/promises";
import type { ExecutionContext } from "ava";
import Koa from "koa";
import { createWebhookReader } from "../../../modules/billing/stripe/createWebhookReader.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { eventually } from "../../support/programs.ts";
import { listen } from "../../support/server.ts";
import { startApiOf } from "../startStandaloneApi.ts";
import type { ApiState } from "../../../api/http/requestContext.ts";
import { readBody, takeTurnOfLongBody } from "../../../api/http/readBody.ts";
import { runForClient } from "../../../runtime/client.ts";
import { Gate } from "../../../runtime/gate.ts";
import { openDoor } from "../../../runtime/server/openDoor.ts";
import { lockRows } from "../../support/lockWaits.ts";

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

test("a client that disconnects while it sends a body frees the places of its request", async (t) => {
  const { url, call, logged, key } = await startApiOf(t);
  const body = { items: [{ count: 1 }] };
  const lines = (path: string): number => logged().filter(({ route }) => route === path).length;
  // As many batches as an account may have at the same time.
  const paths = ["/plant/trees", ...Array.from({ length: 8 }, () => "/plant/trees/batch")];

  for (const [index, path] of paths.entries()) {
    const socket = await open(t, url);
    socket.write(`${head(path, key, "Content-Length: 1000")}{"count":`);
    // The server has read the request when it has answered a later one of another connection.
    t.is((await call("GET", "/healthz")).status, 200);
    socket.destroy();
    await eventually(() => lines(path) === Math.max(1, index));
  }

  const { body: planted } = await call("POST", "/plant/trees", { key, body: { count: 1 } });
  t.is(planted["total_planted_trees"], 1, "nothing else was recorded");
  t.is((await call("POST", "/plant/trees/batch", { key, body })).status, 200);
  t.false(logged().some((line) => line["msg"] === "request failed"));
  t.is(logged().filter((line) => line["aborted"] === true).length, 9);
});

const statusesIn = (text: string): readonly string[] => text.match(/(?<=HTTP\/1\.1 )\d+/gu) ?? [];

const BYTES = 8 * 1024 * 1024;
const CHUNKED = "Transfer-Encoding: chunked";
const inOneChunk = `${BYTES.toString(16)}\r\n${"x".repeat(BYTES)}\r\n0\r\n\r\n`;

for (const [title, path, headers] of [
  ["chunked", "/plant/trees", CHUNKED],
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
  const { url, call, key, appRequests } = await startApiOf(t, { readStripeWebhook });
  const stalling = await createTestOrganization(t.context.db);
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
  const { url, appRequests } = await startApiOf(t, { readStripeWebhook, trustedProxies: 1 });
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

  const [text] = await once((await send("192.0.2.1")).setEncoding("latin1"), "data");
  t.regex(String(text), /^HTTP\/1\.1 503 [^]*"too many request bodies are arriving, try again"/u);
  const other = await send("192.0.2.2");
  other.write("x".repeat(LARGEST));
  const [answer] = await once(other.setEncoding("latin1"), "data");
  t.regex(String(answer), /^HTTP\/1\.1 400 /u);
});

const app = new Koa<ApiState>();
const read = readBody(64);

type Given = { readonly body: string; readonly accountId?: string };

/** Reads a body that has arrived. */
const start = ({ body, accountId = "public" }: Given, parsed: () => void) => {
  const request = new IncomingMessage(new Socket());
  const sent = Buffer.from(body);
  request.method = "POST";
  request.headers = { "content-type": "application/json", "content-length": String(sent.length) };
  request.push(sent);
  request.push(null);
  request.complete = true;
  const response = new ServerResponse(request);
  const ctx = app.createContext<ApiState>(request, response);
  const done = runForClient(accountId, () =>
    read(ctx, () => {
      parsed();
      return Promise.resolve();
    }),
  );
  return { response, done };
};

/** Takes the turn of long bodies, so that others wait until the test ends it. */
const holdTurn = () => takeTurnOfLongBody(new ServerResponse(new IncomingMessage(new Socket())));

const bodyOf = (bytes: number): string => JSON.stringify({ attribution: "x".repeat(bytes) });

const LONG = bodyOf(30_000);

test.serial("as much time as a long body took is left to others before the next", async (t) => {
  const workMs = 60;
  const times: number[] = [];
  const work = (): void => {
    times.push(performance.now());
    const endMs = performance.now() + workMs;
    while (performance.now() < endMs) {
      // Works.
    }
    times.push(performance.now());
  };
  await Promise.all([start({ body: LONG }, work).done, start({ body: LONG }, work).done]);

  const [, endMs = 0, nextMs = 0] = times;
  // Timers are precise to a millisecond.
  t.true(nextMs - endMs >= workMs - 1, `${nextMs - endMs} ms`);
});

test.serial("accounts and clients without a key take turns with their long bodies", async (t) => {
  const endTurn = await holdTurn();
  const order: string[] = [];
  const reads = ["a", "a", "a", "b", "public", "public"].map((accountId) =>
    start({ body: LONG, accountId }, () => order.push(accountId)),
  );
  await nextLoopIteration();
  endTurn();
  await Promise.all(reads.map(({ done }) => done));

  t.deepEqual(order, ["a", "b", "public", "a", "public", "a"]);
});

test.serial("a body as long as a valid item waits for no other", async (t) => {
  const endTurn = await holdTurn();
  await t.notThrowsAsync(start({ body: bodyOf(20_000) }, () => undefined).done);
  endTurn();
});

test.serial("a long body whose client disconnects is not parsed", async (t) => {
  const endTurn = await holdTurn();
  const order: string[] = [];
  const gone = start({ body: LONG, accountId: "a" }, () => order.push("gone"));
  const last = start({ body: LONG, accountId: "a" }, () => order.push("last"));
  await nextLoopIteration();

  gone.response.emit("close");
  await t.throwsAsync(async () => gone.done, { message: "the client has disconnected" });
  endTurn();
  await last.done;

  t.deepEqual(order, ["last"]);
});

test.serial("a long body that waits has no place, and is in the memory for bodies", async (t) => {
  const gate = new Gate({ places: 1, maximumBytes: 4 * LONG.length });
  const server = createServer(
    openDoor(
      async (request, response) => {
        try {
          await read(app.createContext<ApiState>(request, response), () => Promise.resolve());
          response.end("parsed");
        } catch (error) {
          response.end(String(error));
        }
      },
      { gate, reject: (response) => response.writeHead(503).end() },
    ),
  );
  const port = await listen(t, server);
  const post = (body: string): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body,
    });
  const endTurn = await holdTurn();

  const waiting: Promise<Response>[] = [];
  for (const _ of [1, 2]) {
    const arrived = once(server, "request");
    waiting.push(post(LONG));
    await arrived;
  }
  t.is(await (await post("{}")).text(), "parsed");
  // The client may hold as many bytes as are free.
  t.regex(await (await post(LONG)).text(), /too many request bodies are arriving/u);
  endTurn();
  for (const response of waiting) {
    t.is(await (await response).text(), "parsed");
  }
  t.regex(await (await post(LONG)).text(), /parsed/u);
});

/** Starts an API for two organizations, and makes the registrations of the first one wait for a lock. */
const startWithLockedTotal = async (t: DatabaseTest) => {
  const api = await startApiOf(t);
  const other = await createTestOrganization(t.context.db);
  await api.post("/plant/trees", { count: 1 });
  return {
    ...api,
    otherKey: other.apiKeyProd,
    release: await lockRows(t, t.context.databaseUrl, "impact_total", "account_id", api.id),
  };
};

test("an account whose requests would take all places of a process leaves half of them to others", async (t) => {
  const { call, post, appRequests, otherKey, release } = await startWithLockedTotal(t);
  const before = appRequests();

  const waiting = Promise.all(
    // As many as run at the same time in a process.
    Array.from({ length: 500 }, () => post("/plant/trees", { count: 1 })),
  );
  await eventually(() => appRequests() === before + 500);

  t.is((await call("GET", "/plant/trees", { key: otherKey })).status, 200);
  await release();
  t.deepEqual(new Set((await waiting).map(({ status }) => status)), new Set([200]));
});

test("an account may record half of the batches of a process at the same time: others find places, and its further ones wait", async (t) => {
  const { call, post, otherKey, release } = await startWithLockedTotal(t);
  const batch = { items: [{ count: 1 }] };

  const batches = Array.from({ length: 40 }, () => post("/plant/trees/batch", batch));
  // It is read, although it cannot be recorded.
  const other = await call("POST", "/plant/trees/batch", { key: otherKey, body: { items: [] } });
  t.is(other.status, 400);
  await release();
  const statuses = (await Promise.all(batches)).map((response) => response.status);
  t.deepEqual(new Set(statuses), new Set([200]));
});
