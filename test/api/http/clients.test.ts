import { once } from "node:events";
import { PassThrough } from "node:stream";
import Koa from "koa";
import { pino } from "pino";
import test from "ava";
import { z } from "zod";
import type { ApiState } from "../../../api/http/requestContext.ts";
import { observeRequest } from "../../../api/http/observeRequests.ts";
import { serve } from "../../support/server.ts";
import { createArrivingBodies } from "../../../api/http/receiveBody.ts";

const logged = z.looseObject({ clientAddress: z.string(), keyId: z.string() });

/** Sends a request with a key through the middleware, and returns the line that it logs. */
const logRequest = async (
  t: Parameters<typeof serve>[0],
  trustedProxies: number,
  forwardedFor: string | null,
): Promise<{ readonly text: string; readonly clientAddress: string; readonly keyId: string }> => {
  const stream = new PassThrough();
  const app = new Koa<ApiState>();
  app.use(observeRequest({ logger: pino(stream), observe: () => undefined, trustedProxies }));
  app.use((ctx) => {
    ctx.state.caller = {
      keyId: "key-1",
      accountId: "account-1",
      mode: "live",
      scope: "write",
      expiresAt: null,
      lastUsedAt: null,
      fractionalCounting: false,
      suspendingSubscription: null,
      isLimited: false,
    };
    ctx.body = "ok";
  });
  const line = once(stream, "data");
  await fetch(await serve(t, app), {
    headers: {
      Authorization: "impact_prod_secret",
      ...(forwardedFor === null ? {} : { "X-Forwarded-For": forwardedFor }),
    },
  });
  const text = String((await line)[0]);
  return { text, ...logged.parse(JSON.parse(text)) };
};

test("a request's log line has the key's id and the client's address, and not the key", async (t) => {
  const { text, keyId, clientAddress } = await logRequest(t, 0, null);
  t.is(keyId, "key-1");
  t.regex(clientAddress, /127\.0\.0\.1$/u);
  t.false(text.includes("secret"));
});

test("without trusted proxies, X-Forwarded-For is ignored", async (t) => {
  const { clientAddress } = await logRequest(t, 0, "203.0.113.7");
  t.regex(clientAddress, /127\.0\.0\.1$/u);
});

test("the address is the one that the first trusted proxy saw, whatever the client claims", async (t) => {
  const claimed = "10.0.0.1, 203.0.113.7";
  t.is((await logRequest(t, 1, claimed)).clientAddress, "203.0.113.7");
  t.is((await logRequest(t, 2, `${claimed}, 192.0.2.9`)).clientAddress, "203.0.113.7");
});

test("a header with fewer addresses than proxies is ignored, and a long one is cut", async (t) => {
  t.regex((await logRequest(t, 2, "203.0.113.7")).clientAddress, /127\.0\.0\.1$/u);
  t.is((await logRequest(t, 1, "x".repeat(9000))).clientAddress.length, 45);
});

test("probes are logged at the level debug, unless they fail", async (t) => {
  const lines: unknown[] = [];
  const stream = new PassThrough().on("data", (line) => lines.push(JSON.parse(String(line))));
  const logger = pino({ level: "debug" }, stream);
  const app = new Koa<ApiState>();
  app.use(observeRequest({ logger, observe: () => undefined, trustedProxies: 0 }));
  app.use((ctx) => {
    ctx.state.route = ctx.path;
    ctx.status = Number(ctx.query["status"]);
  });
  const url = await serve(t, app);

  for (const target of ["/healthz?status=200", "/readyz?status=503", "/plant/trees?status=200"]) {
    await fetch(`${url}${target}`);
  }

  t.like(lines, [
    { route: "/healthz", level: 20 },
    { route: "/readyz", level: 30 },
    { route: "/plant/trees", level: 30 },
  ]);
});

const TOO_MANY = { code: "queue_full", message: "too many request bodies are arriving, try again" };

/** Adds bodies of clients and notes which are dropped. */
const start = (maximumBytes: number) => {
  const add = createArrivingBodies(maximumBytes);
  const dropped: string[] = [];
  return {
    dropped,
    add: (clientName: string, bodyName: string, bytes: number) => {
      const memory = add(clientName, () => dropped.push(bodyName));
      memory.resize(bytes);
      return memory;
    },
  };
};

test("a client that starts more than is free loses its own oldest bodies, and only as many as necessary", (t) => {
  const { add, dropped } = start(100);
  add("other", "other's", 30);
  add("client", "first", 20);
  add("client", "second", 15);
  // A client may have as much as is free.
  t.deepEqual(dropped, []);

  add("client", "third", 10);
  t.deepEqual(dropped, ["first"]);
  // As much as is free now.
  add("client", "fourth", 20);
  t.deepEqual(dropped, ["first"]);
});

test("a client never drops the bodies of another one, and is rejected if those leave no space", (t) => {
  const { add, dropped } = start(100);
  add("first", "of the first", 50);
  add("second", "of the second", 25);

  t.throws(() => add("newcomer", "of the newcomer", 26), TOO_MANY);
  t.throws(() => add("second", "another of the second", 51), TOO_MANY);
  t.deepEqual(dropped, []);
});

test("a body that grows drops the older ones of its client, and neither itself nor another client's", (t) => {
  const { add, dropped } = start(100);
  add("other", "other's", 30);
  add("client", "first", 20);
  const growing = add("client", "growing", 10);

  growing.resize(30);
  t.deepEqual(dropped, []);
  growing.resize(40);
  t.deepEqual(dropped, ["first"]);
  growing.resize(70);
  t.throws(() => growing.resize(71), TOO_MANY);
  t.deepEqual(dropped, ["first"]);
});

test("a body that has arrived, was dropped or whose client has gone gives its bytes back once", (t) => {
  const { add, dropped } = start(100);
  const first = add("client", "first", 50);
  const second = add("client", "second", 50);
  t.deepEqual(dropped, ["first"]);

  // The request of a dropped body ends later.
  first.free();
  t.throws(() => add("newcomer", "of the newcomer", 51), TOO_MANY);
  second.free();
  second.free();
  add("newcomer", "of the newcomer", 50);
  t.throws(() => add("client", "third", 51), TOO_MANY);
  t.deepEqual(dropped, ["first"]);
});
