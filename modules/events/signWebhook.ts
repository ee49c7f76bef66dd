import { createHmac, randomBytes } from "node:crypto";
import { eventIdOf } from "./events.rules.ts";
import { formatSecret, webhookBodyOf } from "./webhooks.rules.ts";
import type { WebhookMessage } from "./webhooks.rules.ts";

const SECRET_BYTES = 32;

export const newSecret = (): string => formatSecret(randomBytes(SECRET_BYTES));

const sign = (secret: string, content: string): string => {
  const key = Buffer.from(secret.slice(secret.indexOf("_") + 1), "base64");
  return `v1,${createHmac("sha256", key).update(content).digest("base64")}`;
};

/**
 * Returns the request of an attempt, signed as Standard Webhooks 1.0.0 says.
 * @param secrets the current one first, then the one that it has replaced, if that still signs
 */
export const signWebhook = (message: WebhookMessage, secrets: readonly string[], now: Date) => {
  const id = eventIdOf(message);
  const timestamp = String(Math.floor(now.getTime() / 1000));
  const body = webhookBodyOf(message);
  const signatures = secrets.map((secret) => sign(secret, `${id}.${timestamp}.${body}`));
  return {
    headers: {
      "content-type": "application/json",
      "user-agent": "impact-tracking-service",
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": signatures.join(" "),
    },
    body,
  };
};
