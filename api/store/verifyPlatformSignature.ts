import { createHmac } from "node:crypto";
import { equalSignatures } from "../http/equalSignatures.ts";

/** Returns the signature of a body: the HMAC-SHA256 in base64. */
export const signPlatformRequest = (secret: string, body: string): string =>
  createHmac("sha256", secret).update(body).digest("base64");

/** Returns whether one of the secrets has signed the body. There are two while a secret is replaced. */
export const isSignedByPlatform = (
  signature: string,
  { secrets, body }: { readonly secrets: readonly string[]; readonly body: string },
): boolean =>
  // Every secret is tried, so that the time does not say which one is right.
  secrets.filter((secret) => equalSignatures(signature, signPlatformRequest(secret, body))).length >
  0;
