import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import test from "ava";
import Koa from "koa";
import { readBody } from "../../../api/middleware/readBody.ts";
import type { ApiState } from "../../../api/http/apiContext.ts";

/** Returns a request whose body has arrived. */
const received = (body: string): IncomingMessage => {
  const request = new IncomingMessage(new Socket());
  request.method = "POST";
  request.headers = { "content-type": "application/json", "content-length": String(body.length) };
  request.push(body);
  request.push(null);
  request.complete = true;
  return request;
};

/** Reads bodies that have arrived together, and returns the turn of the event loop in which each was parsed. */
const turnsOf = async (bodies: readonly string[]): Promise<readonly number[]> => {
  const app = new Koa<ApiState>();
  const read = readBody(64);
  let turn = 0;
  let isReading = true;
  const count = (): void => {
    turn += 1;
    if (isReading) {
      setImmediate(count);
    }
  };
  setImmediate(count);
  const turns = await Promise.all(
    bodies.map(async (body) => {
      const request = received(body);
      const ctx = app.createContext<ApiState>(request, new ServerResponse(request));
      let parsedIn = -1;
      await read(ctx, () => {
        parsedIn = turn;
        return Promise.resolve();
      });
      return parsedIn;
    }),
  );
  isReading = false;
  return turns;
};

const bodyOf = (bytes: number): string => JSON.stringify({ attribution: "x".repeat(bytes) });

test.serial(
  "long bodies that arrive together are parsed in different turns of the event loop",
  async (t) => {
    const turns = await turnsOf([20_000, 40_000, 60_000].map(bodyOf));
    t.is(new Set(turns).size, 3, String(turns));
  },
);

test.serial("short bodies that arrive together are parsed in one turn", async (t) => {
  const turns = await turnsOf([10, 100, 10_000].map(bodyOf));
  t.is(new Set(turns).size, 1, String(turns));
});
