import type { ApiContext } from "../http/apiContext.ts";
import { receiveBody } from "./receiveBody.ts";

/**
 * Reads a body whose signature covers its bytes.
 * @throws HttpError body_too_large, request_malformed
 */
export const readRawBody = async (ctx: ApiContext, limitKib: number): Promise<string> =>
  (await receiveBody(ctx, limitKib)).toString("utf8");
