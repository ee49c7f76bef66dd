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

/** The parts that snapshot events and notifications of thin events have in common. */
const announcedEvent = z.object({
  id: z.string().min(1).max(255),
  type: z.string().min(1).max(255),
});

/** Snapshot events contain their object, thin events name it. */
const announcedObject = z.union([
  z
    .object({ data: z.object({ object: z.object({ id: z.string().max(255) }) }) })
    .transform(({ data }) => data.object.id),
  z
    .object({ related_object: z.object({ id: z.string().max(255) }) })
    .transform(({ related_object: { id } }) => id),
]);

const envelope = z.object({ object: z.enum(["event", "v2.core.event"]) });

const parseBody = (body: string): z.output<typeof envelope> => {
  try {
    return envelope.parse(JSON.parse(body));
  } catch (cause) {
    throw invalidRequest("the body is not a Stripe event", { cause });
  }
};

/** @param secrets of all destinations; during a rotation, the old and the new ones */
export const createWebhookReader = (secrets: readonly string[]): ReadWebhook => {
  // Verification makes no call, so it needs no key.
  const stripe = new Stripe("sk_none", { telemetry: false });

  const verify = (
    { object }: z.output<typeof envelope>,
    secret: string,
    { body, signature, receivedAt }: Parameters<ReadWebhook>[0],
  ): Promise<{ readonly id: string }> => {
    const given = [body, signature, secret, undefined, undefined, receivedAt.getTime()] as const;
    return object === "event"
      ? stripe.webhooks.constructEventAsync(...given)
      : stripe.parseEventNotificationAsync(...given);
  };

  return async (webhook) => {
    const parsed = parseBody(webhook.body);
    let problem = "there is no signature";
    for (const secret of secrets) {
      try {
        const verified = await verify(parsed, secret, webhook);
        const event = announcedEvent.parse(verified);
        const objectId = announcedObject.safeParse(verified).data ?? null;
        return { id: event.id, type: event.type, objectId };
      } catch (error) {
        if (error instanceof z.ZodError) {
          throw invalidRequest("the body is not a Stripe event", {
            cause: error,
          });
        }
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
