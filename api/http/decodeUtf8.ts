import { isUtf8 } from "node:buffer";
import { HttpError } from "./httpError.ts";

/**
 * Decodes a body. Invalid bytes are rejected, because others would be stored in their place.
 * @throws HttpError request_malformed
 */
export const decodeUtf8 = (body: Buffer): string => {
  if (!isUtf8(body)) {
    throw new HttpError("request_malformed", "the body is not valid UTF-8");
  }
  return body.toString("utf8");
};
