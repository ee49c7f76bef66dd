import { once } from "node:events";
import { PassThrough } from "node:stream";
import Koa from "koa";
import { pino } from "pino";
import test from "ava";
import { z } from "zod";
import type { ApiState } from "../../../api/http/requestContext.ts";
import { observeRequest } from "../../../api/http/observeRequests.ts";
import { serve } from "../../support/server.ts";

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
