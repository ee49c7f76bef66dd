import { signPlatformRequest } from "../../../api/http/signatures.ts";
import type { StoreApi } from "../startStoreApi.ts";

/** Sends a privacy request as the platform does, signed with a secret if there is one. */
export const sendPlatformRequest = async (
  { url }: Pick<StoreApi, "url">,
  topic: string,
  request: object,
  secret: string | null,
): Promise<{ readonly status: number; readonly body: unknown }> => {
  const body = JSON.stringify(request);
  const response = await fetch(`${url}/webhooks/privacy`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      "X-Shopify-Topic": topic,
      ...(secret === null ? {} : { "X-Shopify-Hmac-Sha256": signPlatformRequest(secret, body) }),
    },
    body,
  });
  return { status: response.status, body: await response.json() };
};
