import { isUtf8 } from "node:buffer";
import { HttpError } from "./httpError.ts";

/**
 * Rejects a body that is not UTF-8. A decoder would replace its invalid bytes, and the replacements would be stored.
 * @throws HttpError request_malformed
 */
export const requireUtf8 = (body: Buffer): void => {
  if (!isUtf8(body)) {
    throw new HttpError("request_malformed", "the body is not valid UTF-8");
  }
};
