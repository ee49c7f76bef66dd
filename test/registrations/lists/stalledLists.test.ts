import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { request } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { z } from "zod";
import { Gate } from "../../../runtime/gate.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { eventually } from "../../support/programs.ts";
import { startApiOf, startStandaloneApi } from "../../api/startStandaloneApi.ts";
import { fillTrees, openList, watchPages } from "./listSetup.ts";

const test = testWithDatabase();

const MIB = 1024 * 1024;
const LONG_METADATA = { a: "x".repeat(64_000) };

const requestStarts = z.object({
  request: z.custom<IncomingMessage>(),
  response: z.custom<ServerResponse>(),
  socket: z.custom<Socket>(),
});

const sum = (numbers: readonly number[]): number =>
  numbers.reduce((total, number) => total + number, 0);

test("fifty clients that stop reading long lists hold less than 48 MiB", async (t) => {
  const { db } = t.context;
  const pageBytes: number[] = [];
  const reads = watchPages(db, { after: (bytes) => pageBytes.push(bytes) });
  const { url, logged } = await startStandaloneApi(t, { db, reads });
  const sockets = new Set<Socket>();
  const onRequest = (message: unknown): void => {
    const { socket } = requestStarts.parse(message);
    if (socket.localPort === Number(new URL(url).port)) {
      sockets.add(socket);
    }
  };
  subscribe("http.server.request.start", onRequest);
  t.teardown(() => unsubscribe("http.server.request.start", onRequest));
  const stalled: IncomingMessage[] = [];
  for (let account = 0; account < 10; account += 1) {
    const { id, apiKeyProd: key } = await createTestOrganization(db);
    await fillTrees(db, id, 700, LONG_METADATA);
    for (let list = 0; list < 5; list += 1) {
      stalled.push(await openList(url, key));
    }
  }
  const heldBytes = (): number =>
    sum(pageBytes) -
    sum([...sockets].map(({ bytesWritten, writableLength }) => bytesWritten - writableLength));
  let pagesBefore = -1;
  await eventually(() => {
    // How much the kernel takes before it stops, and so how much of a page is left, differs between runs.
    const isStalled = [...sockets].every(({ writableLength }) => writableLength > 0);
    const isStill = pageBytes.length === pagesBefore;
    pagesBefore = pageBytes.length;
    return isStalled && isStill;
  });

  t.is(sockets.size, 50);
  t.true(sum(pageBytes) < 50 * 40 * MIB, "no list was read to its end");
  t.true(heldBytes() < 48 * MIB, `${heldBytes()} bytes are held`);

  t.true(stalled.every(({ statusCode }) => statusCode === 200));
  stalled.forEach((response) => response.destroy());
  await eventually(() => logged().filter((line) => line["aborted"] === true).length === 50);
});

test("a client that stops reading is disconnected, and its place is free again", async (t) => {
  const listGate = new Gate({ places: 10 });
  const { id, key, url, get, logged } = await startApiOf(t, { listGate, writeTimeoutMs: 3000 });
  await fillTrees(t.context.db, id, 700, LONG_METADATA);

  const stalled = await openList(url, key);
  t.is(stalled.statusCode, 200);

  await eventually(() => listGate.runningCount() === 0);
  const last = logged().findLast((line) => line["msg"] === "request");
  t.like(last, { route: "/plant/trees", aborted: true });
  t.false(logged().some((line) => line["msg"] === "request failed"));
  stalled.destroy();
  t.is((await get("/plant/trees?created_at=2100-01-01")).status, 200);
});

for (const [accept, page] of [
  ["application/json", "&first=1"],
  ["text/csv", "&first=1"],
  ["application/x-ndjson", ""],
] as const) {
  test(`a search of ${accept} ends when its client disconnects, although it has found nothing`, async (t) => {
    const { db } = t.context;
    const listGate = new Gate({ places: 10 });
    let steps = 0;
    const client = new AbortController();
    const served = Promise.withResolvers<ServerResponse>();
    const reads = watchPages(db, {
      before: async (number) => {
        steps = number;
        if (number === 2) {
          client.abort();
          await once(await served.promise, "close");
        }
      },
    });
    const { id, key, url } = await startApiOf(t, { listGate, reads });
    await fillTrees(db, id, 2000);
    const list = `${url}/plant/trees?metadata=${encodeURIComponent('{"a":1}')}${page}`;
    const headers = { Authorization: key, accept };
    const call = request(list, { agent: false, signal: client.signal, headers });
    call.on("error", () => undefined);
    const onRequest = (message: unknown): void => {
      const { request: received, response } = requestStarts.parse(message);
      if (received.url?.includes("metadata") === true && received.headers.accept === accept) {
        served.resolve(response);
      }
    };
    subscribe("http.server.request.start", onRequest);
    t.teardown(() => unsubscribe("http.server.request.start", onRequest));
    call.end();

    await eventually(() => steps >= 2 && listGate.runningCount() === 0);
    t.is(steps, 2, "of four");
  });
}

test("more lists than there are places wait for their turn, and other requests do not", async (t) => {
  const { db } = t.context;
  const listGate = new Gate({ places: 4 });
  const { id, key, url, call, get, post } = await startApiOf(t, { listGate });
  await fillTrees(db, id, 700, LONG_METADATA);
  const other = await createTestOrganization(db);
  await fillTrees(db, other.id, 700, LONG_METADATA);
  t.is((await openList(url, key)).statusCode, 200);
  t.is((await openList(url, key)).statusCode, 200);

  const waiting = Array.from({ length: 300 }, () => get("/plant/trees?created_at=2100-01-01"));
  await eventually(() => listGate.waitingCount() > 0);
  t.is((await post("/plant/trees", { count: 1 })).status, 200);
  t.is((await call("HEAD", "/plant/trees", { key })).status, 200);
  // One account has half of the places at most.
  t.is((await call("GET", "/plant/trees", { key: other.apiKeyProd })).status, 200);

  // The clients that do not read lose their places.
  t.true((await Promise.all(waiting)).every(({ status }) => status === 200));
  await eventually(() => listGate.runningCount() === 0);
});
