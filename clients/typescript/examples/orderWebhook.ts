/*
 * Plants a tree for each order that a shop platform reports by its webhook, which may be delivered several times.
 *
 * IMPACT_STORE_URL=http://127.0.0.1:8081 IMPACT_STORE_KEY=… SHOP=demo.myshopify.com PLATFORM_SECRET=… node orderWebhook.ts
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createStoreClient, ImpactApiError } from "impact-tracking-client";

const store = createStoreClient({
  baseUrl: process.env["IMPACT_STORE_URL"] ?? "http://127.0.0.1:8081",
  apiKey: process.env["IMPACT_STORE_KEY"] ?? "",
  shopName: process.env["SHOP"] ?? "",
});

/** As platforms sign: the Base64 of the body's HMAC-SHA256. The header's name differs between them. */
const isSigned = (request: IncomingMessage, body: Buffer): boolean => {
  const expected = createHmac("sha256", process.env["PLATFORM_SECRET"] ?? "")
    .update(body)
    .digest();
  const given = Buffer.from(String(request.headers["x-hmac-sha256"] ?? ""), "base64");
  return given.length === expected.length && timingSafeEqual(given, expected);
};

const receive = async (request: IncomingMessage): Promise<number> => {
  const body = Buffer.concat(await request.toArray());
  if (!isSigned(request, body)) {
    return 401;
  }
  const { id } = JSON.parse(body.toString()) as { readonly id: number };
  try {
    // From the order, so that each delivery has the same key and the same body.
    await store.plantTrees({ trees: 1, order_id: `#${id}` }, { idempotencyKey: `order-${id}` });
    return 204;
  } catch (error) {
    console.error(`Order ${id}:`, error);
    // A 400 would be the same again. After a 503 the platform delivers the webhook again.
    return error instanceof ImpactApiError && error.status === 400 ? 204 : 503;
  }
};

const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const status = await receive(request).catch(() => 400);
  response.writeHead(status).end();
};

const server = createServer((request, response) => void respond(request, response));
server.listen(Number(process.env["PORT"] ?? 4001), "127.0.0.1", () => {
  console.log(`Listening: ${JSON.stringify(server.address())}`);
});
