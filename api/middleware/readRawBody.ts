import type { ApiContext } from "../http/apiContext.ts";
import { HttpError } from "../http/httpError.ts";

/**
 * Reads a body whose signature covers its bytes.
 * @throws HttpError body_too_large, request_malformed
 */
export const readRawBody = async (ctx: ApiContext, limitKib: number): Promise<string> => {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of ctx.req) {
      const buffer = Buffer.from(chunk);
      bytes += buffer.length;
      if (bytes > limitKib * 1024) {
        break;
      }
      chunks.push(buffer);
    }
  } catch (cause) {
    throw new HttpError("request_malformed", "the body ended before its announced length", {
      cause,
    });
  }
  if (bytes > limitKib * 1024) {
    throw new HttpError("body_too_large", `the body must be at most ${limitKib} KiB`);
  }
  return Buffer.concat(chunks).toString("utf8");
};
