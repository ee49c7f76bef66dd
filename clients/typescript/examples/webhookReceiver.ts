/*
 * Receives the service's webhooks.
 *
 * IMPACT_WEBHOOK_SECRET=whsec_… PORT=4000 node webhookReceiver.ts
 */
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { verifyWebhook, WebhookVerificationError } from "impact-tracking-client";
import type { Webhook } from "impact-tracking-client";

const MAXIMUM_BYTES = 64 * 1024;

/** In a real receiver, a table with a unique id, written in the transaction of what the webhook causes. */
const processed = new Set<string>();

const readBody = async (request: IncomingMessage): Promise<Buffer> => {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > MAXIMUM_BYTES) {
      throw new WebhookVerificationError("the body is too large");
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
};

const processOnce = ({ id, type, data }: Webhook): void => {
  if (processed.has(id)) {
    return;
  }
  processed.add(id);
  console.log(`${type}: ${JSON.stringify(data)}`);
};

const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  try {
    const webhook = await verifyWebhook({
      // During a rotation, also the old secret: [newSecret, oldSecret].
      secret: process.env["IMPACT_WEBHOOK_SECRET"] ?? "",
      headers: request.headers,
      // The bytes as they arrived, not the parsed body.
      body: await readBody(request),
    });
    processOnce(webhook);
    response.writeHead(204).end();
  } catch (error) {
    const isRefused = error instanceof WebhookVerificationError;
    console.error(isRefused ? `Refused: ${error.message}` : error);
    // After a 500, the service delivers the webhook again.
    response.writeHead(isRefused ? 400 : 500, { Connection: "close" }).end();
  }
};

const server = createServer((request, response) => void receive(request, response));
server.listen(Number(process.env["PORT"] ?? 4000), "127.0.0.1", () => {
  console.log(`Listening: ${JSON.stringify(server.address())}`);
});
