import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { setImmediate as nextLoopIteration } from "node:timers/promises";
import test from "ava";
import type { ExecutionContext } from "ava";
import { Gate } from "../../../runtime/gate.ts";
import { nameClient, openDoor } from "../../../runtime/server/openDoor.ts";
import { eventually } from "../../support/programs.ts";
import { listen } from "../../support/server.ts";

type Started = { readonly url: string; readonly end: (body?: string | Buffer) => void };

/** Serves requests that last until the test ends them. */
const startServer = async (
  t: ExecutionContext,
  gate: Gate,
  prepare: (request: IncomingMessage) => Promise<unknown> | null = () => null,
) => {
  const started: Started[] = [];
  const server = createServer(
    openDoor(
      async (request, response: ServerResponse) => {
        const { url = "" } = request;
        await prepare(request);
        await new Promise<void>((resolve) => {
          const end = (body: string | Buffer = url): void => {
            response.end(body);
            resolve();
          };
          started.push({ url, end });
        });
      },
      { gate, reject: (response) => response.writeHead(503).end() },
    ),
  );
  const port = await listen(t, server);
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

test("thousands of pipelined requests run some at a time, and are answered in their order", async (t) => {
  const { started, open } = await startServer(t, new Gate({ places: 4 }));
  const { socket, text } = await open();
  const paths = Array.from({ length: 3000 }, (_, index) => `/${index}`);

  socket.write(paths.map((path) => get(path, "a")).join(""));

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

test("bodies of pipelined requests that wait are not read", async (t) => {
  const { started, open } = await startServer(t, new Gate({ places: 2 }));
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

test("a full process rejects requests, and answers probes", async (t) => {
  const { started, open } = await startServer(t, new Gate({ places: 1, maximumWaiting: 0 }));
  const send = async (path: string) => {
    const connection = await open();
    connection.socket.write(get(path, "flood"));
    return connection;
  };
  await send("/first");
  await eventually(() => started.length === 1);

  const rejected = await send("/second");
  const probe = await send("/healthz");

  await eventually(() => started.length === 2);
  started[1]?.end();
  await eventually(() => probe.text().endsWith("/healthz"));
  await eventually(() => rejected.text() !== "");
  t.regex(rejected.text(), /^HTTP\/1\.1 503 /u);
});

test("a lost connection gives back the places of all its pipelined requests", async (t) => {
  const { started, open } = await startServer(t, new Gate({ places: 6 }));
  const { socket } = await open();
  socket.write(["/1", "/2", "/3"].map((path) => get(path, "a")).join(""));
  await eventually(() => started.length === 3);

  socket.destroy();
  (await open()).socket.write(["/4", "/5", "/6"].map((path) => get(path, "b")).join(""));

  await eventually(() => started.length === 6);
  t.deepEqual(urlsOf(started.slice(3)), ["/4", "/5", "/6"]);
});

/** An account is a letter, and its keys are numbered. */
const accountOf = ({ headers: { authorization = "" } }: IncomingMessage): string =>
  authorization.slice(0, 1);

test("a request whose client goes before its turn does not run", async (t) => {
  const turns: string[] = [];
  const { started, open } = await startServer(t, new Gate({ places: 2 }), async (request) => {
    const turn = nameClient(request, accountOf(request));
    turns.push(String(request.url));
    await turn?.catch((error: unknown) => {
      turns.push(String(error));
      throw error;
    });
  });
  const first = await open();
  first.socket.write(get("/first", "a"));
  await eventually(() => started.length === 1);
  const gone = await open();
  gone.socket.write(get("/gone", "a2"), () => gone.socket.destroy());
  await eventually(() => turns.length === 3);
  started[0]?.end();
  await eventually(() => first.text().endsWith("/first"));
  first.socket.write(get("/next", "a"));

  await eventually(() => started.length === 2);
  t.deepEqual(turns, ["/first", "/gone", "DomainError: the client has disconnected", "/next"]);
  t.deepEqual(urlsOf(started), ["/first", "/next"]);
});

test("requests of an account whose clients read nothing wait until they have read", async (t) => {
  const waiting: string[] = [];
  const gate = new Gate({ places: 10, maximumBytes: 2048 });
  const { started, open } = await startServer(t, gate, async (request) => {
    const turn = nameClient(request, accountOf(request));
    if (turn !== null) {
      waiting.push(String(request.url));
    }
    await turn;
  });
  const silent = await open();
  silent.socket.pause();
  silent.socket.write(get("/silent", "a"));
  await eventually(() => started.length === 1);
  started[0]?.end(Buffer.alloc(64 * 1024 * 1024));
  await eventually(() => gate.runningCount() === 0);

  const second = await open();
  second.socket.write(get("/second", "a2"));
  const other = await open();
  other.socket.write(get("/other", "b"));
  await eventually(() => started.length === 2 && waiting.length === 1);
  t.deepEqual(waiting, ["/second"]);
  t.deepEqual(urlsOf(started), ["/silent", "/other"]);
  silent.socket.destroy();
  await eventually(() => urlsOf(started).includes("/second"));
});
