import { once } from "node:events";
import { createServer } from "node:http";
import type { ServerResponse } from "node:http";
import { connect } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { setImmediate as nextLoopIteration } from "node:timers/promises";
import test from "ava";
import type { ExecutionContext } from "ava";
import { limitConcurrency } from "../../../program/server/limitConcurrency.ts";
import type { Answer } from "../../../program/server/limitConcurrency.ts";
import { eventually } from "../../support/programs.ts";

type Started = { readonly url: string; readonly end: () => void };

/** Serves requests that last until the test ends them. */
const startServer = async (
  t: ExecutionContext,
  limits: Omit<Parameters<typeof limitConcurrency>[1], "reject" | "isClosing">,
) => {
  const started: Started[] = [];
  const server = createServer(
    limitConcurrency(
      ({ url = "" }, response: ServerResponse) => {
        started.push({ url, end: () => response.end(url) });
      },
      { ...limits, reject: (response) => response.writeHead(503).end() },
    ),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server that listens has an AddressInfo.
  const { port } = server.address() as AddressInfo;
  const open = async () => {
    const socket: Socket = connect({ host: "127.0.0.1", port });
    const received: string[] = [];
    socket.setEncoding("latin1").on("data", (text: string) => received.push(text));
    await once(socket, "connect");
    return { socket, text: () => received.join("") };
  };
  return { started, open };
};

const get = (url: string, key: string): string =>
  `GET ${url} HTTP/1.1\r\nHost: x\r\nAuthorization: ${key}\r\n\r\n`;

const urlsOf = (started: readonly Started[]): readonly string[] => started.map(({ url }) => url);

test("a connection runs some of its pipelined requests at a time, and all of them in order", async (t) => {
  const { started, open } = await startServer(t, { maximumRunningPerConnection: 2 });
  const { socket, text } = await open();
  const paths = Array.from({ length: 3000 }, (_, index) => `/${index}`);

  socket.write(paths.map((path) => get(path, "a")).join(""));

  await eventually(() => started.length === 2);
  for (let index = 0; index < paths.length; index += 1) {
    while (started.length <= index) {
      await nextLoopIteration();
    }
    t.true(started.length <= index + 2);
    started[index]?.end();
  }
  await eventually(() => text().endsWith("/2999"));
  t.deepEqual(urlsOf(started), paths);
});

test("a connection whose requests wait is not read", async (t) => {
  const { started, open } = await startServer(t, { maximumRunningPerConnection: 1 });
  const { socket, text } = await open();
  const other = await open();

  // More than the buffers of both sockets hold.
  const body = "x".repeat(60_000);
  const post = `POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  socket.write(post.repeat(400));
  await eventually(() => started.length === 1);
  other.socket.write(get("/b", "b"));
  await eventually(() => started.length === 2);

  t.true(socket.writableLength > 0);
  started[1]?.end();
  await eventually(() => other.text().endsWith("/b"));
  for (let index = 0; index < 401; index += 1) {
    while (started.length <= index) {
      await nextLoopIteration();
    }
    started[index]?.end();
  }
  await eventually(() => socket.writableLength === 0);
  await eventually(() => text().split("HTTP/1.1 200").length === 401);
  t.is(started.length, 401);
});

test("in a busy process clients take turns, and the rejection goes to the client that sends too much", async (t) => {
  const { started, open } = await startServer(t, { maximumRunning: 1, maximumWaiting: 6 });
  const send = async (path: string, key: string) => {
    const connection = await open();
    connection.socket.write(get(path, key));
    return connection;
  };
  await send("/first", "flood");
  await eventually(() => started.length === 1);

  const flood: Awaited<ReturnType<typeof open>>[] = [];
  for (let index = 0; index < 4; index += 1) {
    flood.push(await send(`/flood-${index}`, "flood"));
  }
  // Three of six places are taken; the fourth request of the flood has none.
  await eventually(() => flood.some(({ text }) => text().startsWith("HTTP/1.1 503")));
  const neighbor = await send("/neighbor", "neighbor");
  const probe = await send("/healthz", "flood");

  await eventually(() => started.length === 2);
  t.is(started[1]?.url, "/healthz");
  started[1]?.end();
  await eventually(() => probe.text().endsWith("/healthz"));
  started[0]?.end();
  await eventually(() => started.length === 3);
  started[2]?.end();
  await eventually(() => started.length === 4);
  t.deepEqual(urlsOf(started.slice(2, 4)).toSorted(), ["/flood-0", "/neighbor"]);
  started[3]?.end();
  await eventually(() => neighbor.text().endsWith("/neighbor"));
});

test("a lost connection gives back the places of all its pipelined requests", async (t) => {
  const { started, open } = await startServer(t, { maximumRunning: 3 });
  const { socket } = await open();
  socket.write(["/1", "/2", "/3"].map((path) => get(path, "a")).join(""));
  await eventually(() => started.length === 3);

  socket.destroy();
  const other = await open();
  other.socket.write(["/4", "/5", "/6"].map((path) => get(path, "b")).join(""));

  await eventually(() => started.length === 6);
  t.deepEqual(urlsOf(started.slice(3)), ["/4", "/5", "/6"]);
});

test("a client that is gone does not keep its place", async (t) => {
  const { started, open } = await startServer(t, { maximumRunning: 1 });
  const first = await open();
  first.socket.write(get("/first", "a"));
  await eventually(() => started.length === 1);
  const gone = await open();
  gone.socket.write(get("/gone", "a"));
  const last = await open();
  last.socket.write(get("/last", "a"));

  gone.socket.destroy();
  first.socket.destroy();

  await eventually(() => urlsOf(started).includes("/last"));
  t.true(started.length <= 3);
});

const answerReady: Answer = ({ url }, response) => {
  if (url !== "/ready") {
    return false;
  }
  response.end("at once");
  return true;
};

test("a request that can be answered immediately takes no place, but gets nothing from a busy process", async (t) => {
  const { started, open } = await startServer(t, {
    maximumRunning: 1,
    maximumWaiting: 0,
    answer: answerReady,
  });
  const first = await open();
  const second = await open();

  first.socket.write(get("/ready", "a") + get("/slow", "a"));
  await eventually(() => started.length === 1 && first.text().endsWith("at once"));
  second.socket.write(get("/ready", "b"));
  await eventually(() => second.text().startsWith("HTTP/1.1 503"));
  started[0]?.end();
  await eventually(() => first.text().endsWith("/slow"));
  second.socket.write(get("/ready", "b"));
  await eventually(() => second.text().endsWith("at once"));
  t.deepEqual(urlsOf(started), ["/slow"]);
});

test("a request behind another one of its connection is not answered immediately", async (t) => {
  const { started, open } = await startServer(t, { answer: answerReady });
  const { socket, text } = await open();

  socket.write(get("/slow", "a") + get("/ready", "a"));
  await eventually(() => started.length === 2);
  started[1]?.end();
  started[0]?.end();

  await eventually(() => text().endsWith("/ready"));
  t.regex(text(), /\/slow[^]*\/ready$/u);
});
