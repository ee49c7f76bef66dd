import { createServer } from "node:http";
import { once } from "node:events";
import type { ExecutionContext } from "ava";
import test from "ava";
import { createStripeClient } from "../../modules/billing/stripe/createStripeClient.ts";
import { boundBody } from "../../runtime/outgoing.ts";
import { downloadRecords } from "../../modules/planting/treemapper/downloadRecords.ts";

/** Large, so that the bound is reached long before a request's time limit, even on a busy machine. */
const CHUNK = Buffer.alloc(4 * 1024 * 1024, " ");

/** Serves JSON that never ends, until the test does. Returns its URL and the number of open responses. */
const serveEndless = async (t: ExecutionContext) => {
  let open = 0;
  const server = createServer((_request, response) => {
    open += 1;
    response.once("close", () => {
      open -= 1;
    });
    const send = (): void => {
      if (!response.destroyed && response.write(CHUNK)) {
        setImmediate(send);
      }
    };
    response.writeHead(200, { "Content-Type": "application/json" });
    response.on("drain", send);
    send();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const port = typeof address === "object" ? address?.port : null;
  return { url: `http://127.0.0.1:${port}`, countOpen: () => open };
};

test("a body within the bound is passed on unchanged, and a longer one fails", async (t) => {
  const response = new Response("12345678", { status: 201, headers: { "X-A": "b" } });
  const bounded = boundBody(response, 8);
  t.is(bounded.status, 201);
  t.is(bounded.headers.get("X-A"), "b");
  t.is(await bounded.text(), "12345678");
  await t.throwsAsync(boundBody(new Response("12345678"), 7).text(), {
    message: /longer than 7 bytes/u,
  });
});

test("an endless response of TreeMapper is an error", async (t) => {
  const { url } = await serveEndless(t);
  await t.throwsAsync(
    downloadRecords(
      { apiKey: "tm_key", apiBase: url },
      new AbortController().signal,
      () => undefined,
    ),
    { message: /longer than \d+ bytes/u },
  );
});

test("an endless response of Stripe is an error, and the connection is closed", async (t) => {
  const { url, countOpen } = await serveEndless(t);
  const { stripe } = createStripeClient({
    secretKey: "sk_test_key",
    apiBase: url,
    timeoutMs: 60_000,
  });
  await t.throwsAsync(stripe.billing.meters.list());
  while (countOpen() > 0) {
    await new Promise((resolve) => {
      setTimeout(resolve, 20);
    });
  }
  t.pass();
});
