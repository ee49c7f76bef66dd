import { hash } from "node:crypto";
import type { RequestContext } from "./requestContext.ts";
import { isFresh } from "./endpoint.ts";

/** What all clients get. */
export type Rendered = {
  readonly type: string;
  readonly body: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
};

/**
 * A response with its ETag. The body is encoded once, although it is sent many times: a client that reads nothing holds no
 * copy of it and no open file.
 */
export type Tagged = Omit<Rendered, "body"> & { readonly body: Buffer; readonly etag: string };

export const tag = (rendered: Rendered): Tagged => ({
  ...rendered,
  body: Buffer.from(rendered.body),
  etag: `"${hash("sha256", rendered.body, "base64url")}"`,
});

/** Sends a page, picture or file, or a 304 to a client that has it. */
export const send = (ctx: RequestContext, tagged: Tagged, cacheControl: string): void => {
  ctx.status = 200;
  ctx.type = tagged.type;
  ctx.set({
    "Referrer-Policy": "no-referrer",
    "Cache-Control": cacheControl,
    ...tagged.headers,
    ETag: tagged.etag,
  });
  if (isFresh(ctx)) {
    ctx.status = 304;
    return;
  }
  ctx.body = tagged.body;
};
