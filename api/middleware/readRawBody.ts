import type { ApiContext } from "../http/apiContext.ts";
import { decodeUtf8 } from "../http/decodeUtf8.ts";
import { receiveBody } from "./receiveBody.ts";

/**
 * Reads a body whose signature covers its bytes.
 * @throws HttpError body_too_large, request_malformed
 */
export const readRawBody = (ctx: ApiContext, limitKib: number): Promise<string> =>
  receiveBody(ctx, limitKib, (body) => Promise.resolve(decodeUtf8(body)));
