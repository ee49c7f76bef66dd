import { Stripe } from "stripe";
import { z } from "zod";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import type { ProcessorEvent } from "../processorEvents/processorEvents.rules.ts";

/**
 * Verifies a webhook's signature and returns its event.
 * @throws DomainError request_invalid if the signature fits none of the secrets, or the body is no event
 */
export type ReadWebhook = (webhook: {
  readonly body: string;
  readonly signature: string;
  readonly receivedAt: Date;
}) => Promise<ProcessorEvent>;

const id = z.string().min(1).max(255);

/** What snapshot events and notifications of thin events have in common. The former contain their object, the latter name it. */
const announcedEvent = z.object({
  object: z.enum(["event", "v2.core.event"]),
  id,
  type: id,
  data: z
    .object({ object: z.object({ id }) })
    .optional()
    .catch(undefined),
  related_object: z.object({ id }).nullish().catch(null),
});

const parseEvent = (body: string): ProcessorEvent => {
  try {
    const event = announcedEvent.parse(JSON.parse(body));
    const objectId = event.data?.object.id ?? event.related_object?.id ?? null;
    return { id: event.id, type: event.type, objectId };
  } catch (cause) {
    throw invalidRequest("the body is not a Stripe event", { cause });
  }
};

/** @param secrets of all destinations; during a rotation, the old and the new ones */
export const createWebhookReader = (secrets: readonly string[]): ReadWebhook => {
  const { signature: verifier } = Stripe.webhooks;
  if (verifier === null) {
    throw new Error("Stripe's library cannot verify signatures.");
  }
  return async ({ body, signature, receivedAt }) => {
    let problem = "there is no signature";
    for (const secret of secrets) {
      try {
        const given = [body, signature, secret, undefined, undefined] as const;
        await verifier.verifyHeaderAsync(...given, receivedAt.getTime());
        return parseEvent(body);
      } catch (error) {
        if (!(error instanceof Stripe.errors.StripeSignatureVerificationError)) {
          throw error;
        }
        // The first line; the others are advice for programmers.
        problem = error.message.split("\n", 1)[0]?.trim() ?? problem;
      }
    }
    throw invalidRequest(`invalid Stripe-Signature: ${problem}`);
  };
};
