import { once } from "node:events";
import { Server } from "node:http";
import type { ServerResponse } from "node:http";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import test from "ava";
import type { ExecutionContext } from "ava";
import Koa from "koa";
import { pino } from "pino";
import type { ApiState } from "../../../api/http/requestContext.ts";
import { streamText } from "../../../api/http/streamText.ts";
import { handleErrors } from "../../../api/http/handleErrors.ts";
import { presentStoreError } from "../../../api/store/storeErrors.ts";
import { Gate } from "../../../runtime/gate.ts";
import type { ServerOptions } from "../../../runtime/server/startServer.ts";
import { serve as serveApp, serveRequests } from "../../support/server.ts";

const serve = async (
  t: ExecutionContext,
  respond: (response: ServerResponse) => void,
  options: Partial<ServerOptions>,
) => {
  const url = await serveRequests(t, (_request, response) => respond(response), options);
  return (): Socket => {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    t.teardown(() => socket.destroy());
    return socket;
  };
};

const GET = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

test("a request for which a process has no room is a 503 with Retry-After, in the form of its interface", async (t) => {
  const open = await serve(t, (response) => response.end(), {
    gate: new Gate({ places: 0, maximumWaiting: 0 }),
    presentError: presentStoreError,
  });
  const socket = open();
  socket.write(GET);

  const [response] = await once(socket, "data");
  t.regex(String(response), /^HTTP\/1\.1 503 [^]*\r\nRetry-After: 1\r\n[^]*"code":"OVERLOADED"/u);
});

test("connections that cannot be accepted do not end the process", async (t) => {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const url = await serveRequests(t, ({ socket }, response) => {
    // Node has the server there, without a type.
    resolve(Reflect.get(socket, "server"));
    response.end();
  });
  await fetch(url);
  const server = await promise;
  if (server instanceof Server) {
    for (const code of ["EMFILE", "ENOBUFS"]) {
      t.true(server.emit("error", Object.assign(new Error(code), { code })));
    }
  }
  t.true(server instanceof Server);
});

test("a client that stops reading a response is disconnected", async (t) => {
  const { promise: responded, resolve } = Promise.withResolvers<ServerResponse>();
  // More than the buffers of both kernels hold.
  const body = Buffer.alloc(64 * 1024 * 1024);
  const open = await serve(
    t,
    (response) => {
      response.end(body);
      resolve(response);
    },
    { writeTimeoutMs: 2000 },
  );
  const socket = open();
  socket.pause();
  socket.write(GET);

  const response = await responded;
  await once(response, "close");

  t.false(response.writableFinished);
});

test("a client that goes on sending slowly after its time is disconnected soon after the 408", async (t) => {
  const { promise: connected, resolve } = Promise.withResolvers<Socket>();
  const url = await serveRequests(
    t,
    (request) => {
      resolve(request.socket);
      request.resume();
    },
    { requestTimeoutMs: 500 },
  );
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  let received = "";
  socket.setEncoding("latin1").on("data", (text: string) => {
    received += text;
  });
  // The connection may be reset while it is written to.
  socket.on("error", () => undefined);
  socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
  const trickle = setInterval(() => socket.write("x"), 100);
  t.teardown(() => clearInterval(trickle));
  t.teardown(() => socket.destroy());

  await once(await connected, "close");

  t.regex(received, /^HTTP\/1\.1 408 /u);
});

/** Sends a request's head byte by byte, and never ends it. Returns what is received until the server disconnects. */
const trickleHead = async (t: ExecutionContext, socket: Socket): Promise<string> => {
  let received = "";
  socket.setEncoding("latin1").on("data", (text: string) => {
    received += text;
  });
  // The connection may be reset while it is written to.
  socket.on("error", () => undefined);
  const head = "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ";
  let sent = 0;
  const trickle = setInterval(() => {
    socket.write(head[sent] ?? "x");
    sent += 1;
  }, 20);
  t.teardown(() => clearInterval(trickle));
  await once(socket, "close");
  clearInterval(trickle);
  return received;
};

test("clients that send their headers slowly take no place in the process, and are disconnected with a 408, while others are served", async (t) => {
  let requests = 0;
  const open = await serve(
    t,
    (response) => {
      requests += 1;
      response.end("ok");
    },
    { requestTimeoutMs: 2000, maximumConnections: 201 },
  );
  const other = open();
  let served = 0;
  const request = async (): Promise<void> => {
    other.write(GET);
    const [data] = await once(other, "data");
    t.regex(String(data), /^HTTP\/1\.1 200/u);
    served += 1;
  };
  await request();
  // On new connections, and on those that have had a response.
  const sockets = await Promise.all(
    Array.from({ length: 200 }, async (_, index) => {
      const socket = open();
      await once(socket, "connect");
      if (index % 2 === 0) {
        socket.write(GET);
        await once(socket, "data");
        served += 1;
      }
      return socket;
    }),
  );

  const slow = new Set(sockets);
  for (const socket of sockets) {
    socket.once("close", () => slow.delete(socket));
  }
  const trickled = Promise.all(sockets.map((socket) => trickleHead(t, socket)));
  while (slow.size > 0) {
    await request();
    await delay(10);
  }

  for (const response of await trickled) {
    t.regex(response, /^HTTP\/1\.1 408 [^]*"the request took too long to arrive"/u);
  }
  t.is(requests, served);
  const next = open();
  next.write(GET);
  t.regex(String((await once(next, "data"))[0]), /^HTTP\/1\.1 200/u);
});

/** Yields the parts of a list, each after the connection's time limit. */
async function* readParts(socket: Socket) {
  for (const part of ["[", "1", "]"]) {
    // The server's own limit would also count while the request is on its way.
    socket.setTimeout(50);
    await once(socket, "timeout");
    yield part;
  }
}

test("a list is complete although reading its parts takes longer than the connection's time limit", async (t) => {
  const app = new Koa();
  app.use((ctx) => streamText(ctx, readParts(ctx.socket), 60_000));
  const url = await serveRequests(t, app.callback(), { writeTimeoutMs: 60_000 });

  const response = await fetch(url);

  t.deepEqual(await response.json(), [1]);
});

/** Yields the first page of an export, then fails. */
// oxlint-disable-next-line typescript/require-await -- it stands in for a query.
async function* failAfterOnePage() {
  yield "id,count\n";
  yield "1,1\n";
  throw new Error("the second page fails");
}

test("an export that fails midway is a reset to a client of HTTP/1.0, which could not tell its end from a whole one", async (t) => {
  const app = new Koa<ApiState>();
  app.use(handleErrors(pino({ level: "silent" }), (_code, message) => ({ error: message })));
  app.use((ctx) => streamText(ctx, failAfterOnePage(), 60_000));
  const { hostname, port } = new URL(await serveApp(t, app));
  const socket = connect(Number(port), hostname).resume();
  t.teardown(() => socket.destroy());
  socket.write("GET / HTTP/1.0\r\n\r\n");

  const ended = await new Promise((resolve) => {
    socket.once("end", () => resolve("end"));
    socket.once("error", (error: NodeJS.ErrnoException) => resolve(error.code));
  });

  t.is(ended, "ECONNRESET");
});

test("connections beyond the maximum are closed immediately and counted, and others go on", async (t) => {
  let rejected = 0;
  const open = await serve(t, (response) => response.end("ok"), {
    maximumConnections: 1,
    onRejectedConnection: () => {
      rejected += 1;
    },
  });
  const first = open();
  first.write(GET);
  await once(first, "data");
  const second = open().resume();
  // Whether the kernel reports an end or a reset depends on what arrived first.
  second.on("error", () => undefined);
  await once(second, "close");
  t.is(rejected, 1);

  first.write(GET);
  const [data] = await once(first, "data");
  t.regex(String(data), /^HTTP\/1\.1 200/u);
});
