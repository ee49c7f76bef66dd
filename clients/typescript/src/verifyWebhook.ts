import { ImpactError, WebhookVerificationError } from "./errors.ts";
import type { components as StandaloneComponents } from "./generated/standalone.ts";
import type { components as StoreComponents } from "./generated/store.ts";

/** The headers of a request, as `Headers` or as Node's `request.headers`. */
export type WebhookHeaders =
  | Headers
  | Readonly<Record<string, string | readonly string[] | undefined>>;

export type WebhookRequest = {
  /** The endpoint's secret, `whsec_…`; or several, of which any may have signed. */
  readonly secret: string | readonly string[];
  readonly headers: WebhookHeaders;
  /** The body exactly as it arrived. Parsed and written again, it would have another signature. */
  readonly body: string | Uint8Array;
};

type Message =
  | StandaloneComponents["schemas"]["WebhookMessage"]
  | StoreComponents["schemas"]["WebhookMessage"];

/**
 * What a webhook says: `type` tells which fields `data` has. Later releases of the service may send other types and more
 * fields, so a receiver should ignore a type that it does not know.
 */
export type Webhook = Message & {
  /** The same in every attempt to deliver it: process each id once. */
  readonly id: string;
};

/** How old a webhook may be, or how far in the future. */
const TOLERANCE_SECONDS = 300;
const SECRET_PREFIX = "whsec_";
const SIGNATURE_VERSION = "v1,";

const headerOf = (headers: WebhookHeaders, name: string): string => {
  const value =
    headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  if (typeof value !== "string" || value === "") {
    throw new WebhookVerificationError(`the header ${name} is missing`);
  }
  return value;
};

/** Returns the bytes of Base64, or null if it is none. */
const decodeBase64 = (text: string): Uint8Array<ArrayBuffer> | null => {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
};

/** @throws ImpactError if the receiver's secret is malformed: then the setting is wrong, not the webhook */
const importSecret = (secret: string) => {
  const bytes = secret.startsWith(SECRET_PREFIX)
    ? decodeBase64(secret.slice(SECRET_PREFIX.length))
    : null;
  if (bytes === null || bytes.length === 0) {
    throw new ImpactError("secret: must be whsec_ followed by Base64");
  }
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, [
    "verify",
  ]);
};

/**
 * Verifies a webhook as Standard Webhooks 1.0.0 says, in constant time, and returns what it says.
 * @throws WebhookVerificationError if no secret has signed it, or if it is not of this time
 * @throws ImpactError if a secret is malformed
 */
export const verifyWebhook = async ({
  secret,
  headers,
  body,
}: WebhookRequest): Promise<Webhook> => {
  const id = headerOf(headers, "webhook-id");
  const timestamp = headerOf(headers, "webhook-timestamp");
  const signatures = headerOf(headers, "webhook-signature")
    .split(" ")
    .flatMap((text) =>
      text.startsWith(SIGNATURE_VERSION)
        ? (decodeBase64(text.slice(SIGNATURE_VERSION.length)) ?? [])
        : [],
    );
  const keys = await Promise.all([secret].flat().map(importSecret));
  const ageSeconds = Math.floor(Date.now() / 1000) - Number(timestamp);
  if (!/^\d{1,12}$/u.test(timestamp) || Math.abs(ageSeconds) > TOLERANCE_SECONDS) {
    throw new WebhookVerificationError(
      "webhook-timestamp: must be within five minutes of now, in seconds since 1970; check this machine's clock",
    );
  }
  const signed = await new Blob([
    `${id}.${timestamp}.`,
    typeof body === "string" ? body : new Uint8Array(body),
  ]).arrayBuffer();
  const matches = await Promise.all(
    keys.flatMap((key) =>
      signatures.map((signature) => crypto.subtle.verify("HMAC", key, signature, signed)),
    ),
  );
  if (!matches.includes(true)) {
    throw new WebhookVerificationError("no signature matches the secret");
  }
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  return { ...(JSON.parse(text) as Message), id };
};
