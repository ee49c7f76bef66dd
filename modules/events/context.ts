import type { ClaimedDelivery } from "./attempts.sql.ts";
import type { WebhookEndpoint } from "./endpoints.sql.ts";
import type { AttemptResult } from "./decideDelivery.rules.ts";
import type { WebhookSettings } from "./webhooks.rules.ts";
import type { SendWebhook } from "./createWebhookSender.ts";
import type { Context } from "../../runtime/context.ts";

export type WebhookContext = Context & {
  /** Where deliveries to webhook endpoints may be sent. */
  readonly webhookSettings: WebhookSettings;
};

export type DeliveryContext = Context & {
  readonly send: SendWebhook;
  /** Returns a number from 0 to 1, without 1. */
  readonly random: () => number;
  /** Called after each attempt. */
  readonly observeAttempt: (delivery: ClaimedDelivery, result: AttemptResult) => void;
  /** Called when an endpoint was disabled because of its responses. */
  readonly observeDisabled: (endpoint: WebhookEndpoint) => void;
};
