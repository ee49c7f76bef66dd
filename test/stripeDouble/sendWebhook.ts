import { Stripe } from "stripe";

/** Posts an event as Stripe does, and returns the status of the response. */
export const sendWebhook = async (
  destination: { readonly url: string; readonly secret: string; readonly second: number },
  event: object,
): Promise<number> => {
  const { url, secret, second: timestamp } = destination;
  const payload = JSON.stringify(event);
  const signed = { payload, secret, timestamp };
  const signature = await Stripe.webhooks.generateTestHeaderStringAsync(signed);
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json; charset=utf-8", "stripe-signature": signature },
    body: payload,
  });
  await response.arrayBuffer();
  return response.status;
};
