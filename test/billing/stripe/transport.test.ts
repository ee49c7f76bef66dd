import { createServer } from "node:http";
import type { RequestListener } from "node:http";
import type { ExecutionContext } from "ava";
import test from "ava";
import { Stripe } from "stripe";
import { listen } from "../../support/server.ts";
import { createStripeClient } from "../../../modules/billing/stripe/createStripeClient.ts";

/** Starts a server, and returns a client of it with the number of connections so far. */
const serve = async (
  t: ExecutionContext,
  listener: RequestListener,
  { timeoutMs = 60_000 }: { readonly timeoutMs?: number } = {},
) => {
  const server = createServer(listener);
  let connections = 0;
  server.on("connection", () => {
    connections += 1;
  });
  server.keepAliveTimeout = 60_000;
  const apiBase = `http://127.0.0.1:${await listen(t, server)}`;
  return {
    ...createStripeClient({ secretKey: "sk_test_key", apiBase, timeoutMs }),
    connections: () => connections,
  };
};

test("calls that follow each other share a connection", async (t) => {
  const { stripe, connections } = await serve(t, (request, response) => {
    request.resume();
    response.end(JSON.stringify({ path: request.url }));
  });
  for (let call = 0; call < 5; call += 1) {
    t.like(await stripe.customers.retrieve(`cus_${call}`), { path: `/v1/customers/cus_${call}` });
  }
  t.is(connections(), 1);
});

test("the timeout is of the whole call, also if bytes go on arriving", async (t) => {
  const { stripe } = await serve(
    t,
    (_request, response) => {
      response.writeHead(200);
      const drip = setInterval(() => response.write(" "), 20);
      response.once("close", () => clearInterval(drip));
    },
    // Longer than the response's head takes on a busy machine.
    { timeoutMs: 3000 },
  );
  await t.throwsAsync(stripe.customers.retrieve("cus_1"), {
    instanceOf: Stripe.errors.StripeConnectionError,
    message: /timeout being reached \(3000ms\)/u,
  });
});

test("an aborted signal ends calls whose response has begun, and only those bound to it", async (t) => {
  const begun = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const { stripe, boundTo } = await serve(t, (request, response) => {
    response.writeHead(200);
    response.write('{"id": ', () => {
      if (request.url === "/v1/customers/cus_aborted") {
        begun.resolve();
      }
    });
    void goOn.promise.then(() => response.end('"cus"}'));
  });
  const abort = new AbortController();
  const other = stripe.customers.retrieve("cus_other");
  const aborted = boundTo(abort.signal, async () => stripe.customers.retrieve("cus_aborted"));
  await begun.promise;

  abort.abort();

  await t.throwsAsync(aborted, { instanceOf: Stripe.errors.StripeConnectionError });
  goOn.resolve();
  t.like(await other, { id: "cus" });
});

test("a call whose server switches the protocol instead of responding fails", async (t) => {
  const { stripe } = await serve(t, (request) => {
    request.socket.end(
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    );
  });
  await t.throwsAsync(stripe.customers.retrieve("cus_1"), {
    instanceOf: Stripe.errors.StripeConnectionError,
  });
});

test("headers are those of the SDK, with its API version", async (t) => {
  const seen = Promise.withResolvers<Readonly<Record<string, unknown>>>();
  const { stripe } = await serve(t, (request, response) => {
    seen.resolve(request.headers);
    request.resume();
    response.end("{}");
  });
  await stripe.billing.meterEvents.create(
    { event_name: "x", payload: { value: "1" } },
    { idempotencyKey: "key-1" },
  );
  const headers = await seen.promise;
  t.like(headers, {
    authorization: "Bearer sk_test_key",
    "content-type": "application/x-www-form-urlencoded",
    "idempotency-key": "key-1",
    "stripe-version": Stripe.API_VERSION,
  });
  t.false("x-stripe-client-telemetry" in headers);
});
