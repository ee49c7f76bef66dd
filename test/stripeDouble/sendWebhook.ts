import { Stripe } from "stripe";

/** Posts an event as Stripe does, and returns the status of the response. */
export const sendWebhook = async (
  {
    url,
    secret,
    second,
  }: { readonly url: string; readonly secret: string; readonly second: number },
  event: object,
): Promise<number> => {
  const payload = JSON.stringify(event);
  const signature = await Stripe.webhooks.generateTestHeaderStringAsync({
    payload,
    secret,
    timestamp: second,
  });
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json; charset=utf-8", "stripe-signature": signature },
    body: payload,
  });
  await response.arrayBuffer();
  return response.status;
};
