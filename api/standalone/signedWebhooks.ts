import { receiveProcessorEvent } from "../../modules/billing/processorEvents/processProcessorEvents.ts";
import type { ReadWebhook } from "../../modules/billing/stripe/createWebhookReader.ts";
import { plantingReport } from "../../modules/planting/fact.rules.ts";
import { recordPlantingFacts } from "../../modules/planting/recordPlantingFacts.ts";
import type { Context } from "../../runtime/context.ts";
import type { AppContext } from "../context.ts";
import { HttpError } from "../http/httpError.ts";
import type { Page } from "../http/requestContext.ts";
import { parseRequest } from "../http/parseRequest.ts";
import { BODY_KIB, parseSignedJson, readRawBody } from "../http/readBody.ts";
import { findSignatureProblem } from "../http/signatures.ts";

/** A subscription with many items is Stripe's largest event; it takes about 1 KiB an item. */
const STRIPE_KIB = 512;

/**
 * Stores the events that Stripe announces, and responds before anything depends on them: Stripe repeats a webhook for days
 * if the response is slow or an error.
 */
const stripeWebhook = (context: Context, readWebhook: ReadWebhook): Page => ({
  method: "post",
  path: "/webhooks/stripe",
  run: async (ctx) => {
    const body = await readRawBody(ctx, STRIPE_KIB);
    const signature = ctx.get("Stripe-Signature");
    const event = await readWebhook({ body, signature, receivedAt: context.clock.now() });
    ctx.body = { received: await receiveProcessorEvent(context, event) };
  },
});

const plantingWebhook = (context: Context, secrets: readonly string[]): Page => ({
  method: "post",
  path: "/planting/callback",
  run: async (ctx) => {
    const body = await readRawBody(ctx, BODY_KIB);
    const now = context.clock.now();
    const problem = findSignatureProblem(ctx.get("Planting-Signature"), { secrets, body, now });
    if (problem !== null) {
      throw new HttpError("signature_invalid", problem);
    }
    const { order, facts } = parseRequest(plantingReport, parseSignedJson(body), "field");
    const results = await recordPlantingFacts(context, order, facts, "callback");
    ctx.body = { order, results };
  },
});

/** The webhooks whose signing secrets are set. */
export const signedWebhooks = (context: AppContext): readonly Page[] => {
  const { readStripeWebhook, plantingCallbackSecrets } = context;
  return [
    readStripeWebhook && stripeWebhook(context, readStripeWebhook),
    plantingCallbackSecrets && plantingWebhook(context, plantingCallbackSecrets),
  ].filter((page) => page !== null);
};
