import type { Config } from "../../runtime/config/config.ts";
import type { WebhookSettings } from "./webhooks.rules.ts";

export const readWebhookSettings = ({
  WEBHOOK_ALLOW_HTTP,
  WEBHOOK_ALLOWED_NETWORKS,
}: Pick<Config, "WEBHOOK_ALLOW_HTTP" | "WEBHOOK_ALLOWED_NETWORKS">): WebhookSettings => ({
  allowsHttp: WEBHOOK_ALLOW_HTTP === "on",
  allowedNetworks: WEBHOOK_ALLOWED_NETWORKS?.split(",").map((network) => network.trim()) ?? [],
});
