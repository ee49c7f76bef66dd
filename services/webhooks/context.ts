import type { ClaimedDelivery } from "../../db/webhooks/attempts.ts";
import type { WebhookEndpoint } from "../../db/webhooks/endpoints.ts";
import type { AttemptResult } from "../../domain/webhooks/decideDelivery.ts";
import type { WebhookSettings } from "../../domain/webhooks/webhookEndpoints.ts";
import type { SendWebhook } from "../../providers/webhooks/createWebhookSender.ts";
import type { Context } from "../context.ts";

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
