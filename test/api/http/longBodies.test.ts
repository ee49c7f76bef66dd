import { once } from "node:events";
import { createServer, IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Socket } from "node:net";
import { setImmediate as nextLoopIteration } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import test from "ava";
import Koa from "koa";
import type { ApiState } from "../../../api/http/requestContext.ts";
import { takeTurnOfLongBody } from "../../../api/http/longBodies.ts";
import { readBody } from "../../../api/http/readBody.ts";
import { runForClient } from "../../../runtime/client.ts";
import { Gate } from "../../../runtime/gate.ts";
import { openDoor } from "../../../runtime/server/openDoor.ts";

const app = new Koa<ApiState>();
const read = readBody(64);

type Given = {
  readonly body: string;
  readonly accountId?: string;
  readonly coding?: string;
};

/** Reads a body that has arrived. */
const start = ({ body, accountId = "public", coding }: Given, parsed: () => void) => {
  const request = new IncomingMessage(new Socket());
  const sent = coding === undefined ? Buffer.from(body) : gzipSync(body);
  request.method = "POST";
  request.headers = {
    "content-type": "application/json",
    "content-length": String(sent.length),
    ...(coding === undefined ? {} : { "content-encoding": coding }),
  };
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
const holdTurn = (): Promise<() => void> =>
  takeTurnOfLongBody(new ServerResponse(new IncomingMessage(new Socket())));

/** Reads bodies that have arrived together, and returns the turn of the event loop in which each was parsed. */
const turnsOf = async (given: readonly Given[]): Promise<readonly number[]> => {
  let turn = 0;
  let isReading = true;
  const count = (): void => {
    turn += 1;
    if (isReading) {
      setImmediate(count);
    }
  };
  setImmediate(count);
  const turns = given.map(() => -1);
  await Promise.all(
    given.map(
      (each, index) =>
        start(each, () => {
          turns[index] = turn;
        }).done,
    ),
  );
  isReading = false;
  return turns;
};

const bodyOf = (bytes: number): string => JSON.stringify({ attribution: "x".repeat(bytes) });

const LONG = bodyOf(30_000);

test.serial(
  "long bodies that arrive together are parsed in different turns of the event loop",
  async (t) => {
    const turns = await turnsOf([
      { body: LONG },
      { body: bodyOf(60_000) },
      { body: LONG, coding: "gzip" },
      { body: LONG, coding: "gzip" },
    ]);
    t.is(new Set(turns).size, 4, String(turns));
  },
);

test.serial("bodies as long as a valid item that arrive together share one turn", async (t) => {
  const turns = await turnsOf([10, 100, 20_000].map((bytes) => ({ body: bodyOf(bytes) })));
  t.is(new Set(turns).size, 1, String(turns));
});

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
  const names = ["a", "a", "a", "b", "public", "public"];
  const reads = names.map((accountId) =>
    start({ body: LONG, accountId }, () => order.push(accountId)),
  );
  await nextLoopIteration();
  endTurn();
  await Promise.all(reads.map(({ done }) => done));

  t.deepEqual(order, ["a", "b", "public", "a", "public", "a"]);
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

test.serial(
  "a long body that waits has no place in the process, and is in the memory for bodies",
  async (t) => {
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
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    t.teardown(() => server.close());
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server that listens has an AddressInfo.
    const { port } = server.address() as AddressInfo;
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
  },
);
