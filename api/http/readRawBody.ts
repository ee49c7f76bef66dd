import type { RequestContext } from "./requestContext.ts";
import { requireUtf8 } from "./requireUtf8.ts";
import { receiveBody } from "./receiveBody.ts";

/**
 * Reads a body whose signature covers its bytes.
 * @throws HttpError body_too_large, request_malformed
 */
export const readRawBody = (ctx: RequestContext, limitKib: number): Promise<string> =>
  receiveBody(ctx, limitKib, (body) => {
    requireUtf8(body);
    return Promise.resolve(body.toString("utf8"));
  });
