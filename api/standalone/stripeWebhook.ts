import type { ReadWebhook } from "../../modules/billing/stripe/createWebhookReader.ts";
import { receiveProcessorEvent } from "../../modules/billing/processorEvents/processProcessorEvents.ts";
import type { Webhook } from "../http/createApp.ts";
import { readRawBody } from "../http/readBody.ts";
import type { HttpContext } from "../context.ts";

/** A subscription with many items is the largest event; it takes about 1 KiB an item. */
const LIMIT_KIB = 512;

/**
 * Stores the events that Stripe announces, and responds before anything depends on them: Stripe repeats a webhook for days
 * if the response is slow or an error.
 */
export const stripeWebhook = ({ db, clock }: HttpContext, readWebhook: ReadWebhook): Webhook => ({
  path: "/webhooks/stripe",
  run: async (ctx) => {
    const body = await readRawBody(ctx, LIMIT_KIB);
    const event = await readWebhook({
      body,
      signature: ctx.get("Stripe-Signature"),
      receivedAt: clock.now(),
    });
    ctx.body = { received: await receiveProcessorEvent({ db, clock }, event) };
  },
});
