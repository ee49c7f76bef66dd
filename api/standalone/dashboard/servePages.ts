import { hash } from "node:crypto";
import type { ApiContext } from "../../http/apiContext.ts";
import { isFresh } from "../../http/isFresh.ts";
import { listHeaders } from "../../http/readyResponses.ts";
import type { PublicResponse } from "../../http/readyResponses.ts";

/** For pictures that depend on their URL alone. */
export const IMMUTABLE = "public, max-age=31536000, immutable";

const styleSource = (style: string): string => `'sha256-${hash("sha256", style, "base64")}'`;

/** Returns the directive that allows exactly these style sheets. */
export const allowStyles = (...styles: readonly string[]): string =>
  `style-src ${styles.map(styleSource).join(" ")}`;

/** Returns a Content-Security-Policy that forbids everything but what the directives allow. */
export const policy = (...directives: readonly string[]): string =>
  ["default-src 'none'", "base-uri 'none'", "form-action 'none'", ...directives].join("; ");

/** For what other sites may embed. */
export const OPEN_TO_ALL = {
  "Access-Control-Allow-Origin": "*",
  "Cross-Origin-Resource-Policy": "cross-origin",
};

/** Lets other sites also follow a page's redirects and read its errors. */
export const openToAll =
  (run: (ctx: ApiContext) => Promise<void>) =>
  (ctx: ApiContext): Promise<void> => {
    ctx.set(OPEN_TO_ALL);
    return run(ctx);
  };

export type Rendered = {
  readonly type: string;
  readonly body: string | Buffer;
  readonly headers: Readonly<Record<string, string>>;
};

/** The body is encoded once, although it is sent many times. */
export type Tagged = Omit<Rendered, "body"> & { readonly body: Buffer; readonly etag: string };

const REFERRER_POLICY = { "Referrer-Policy": "no-referrer" };

export const hashOf = ({ body }: Rendered): string => hash("sha256", body, "base64url");

export const tag = (rendered: Rendered, etag = `"${hashOf(rendered)}"`): Tagged => ({
  ...rendered,
  body: typeof rendered.body === "string" ? Buffer.from(rendered.body) : rendered.body,
  etag,
});

/** Sends a page or picture, or a 304 to a client that has it. */
export const send = (
  ctx: ApiContext,
  { type, body, headers, etag }: Tagged,
  cacheControl: string,
): void => {
  ctx.status = 200;
  ctx.type = type;
  ctx.set(REFERRER_POLICY);
  ctx.set("Cache-Control", cacheControl);
  ctx.set(headers);
  ctx.etag = etag;
  if (isFresh(ctx)) {
    ctx.status = 304;
    return;
  }
  ctx.body = body;
};

/** Returns what `send` sends to a client that does not have it. The type must be complete, with its charset. */
export const asReadyResponse = (
  { type, body, headers, etag }: Tagged,
  cacheControl: string,
  route: string,
): PublicResponse => ({
  route,
  headers: listHeaders(
    {
      "Content-Type": type,
      ...REFERRER_POLICY,
      "Cache-Control": cacheControl,
      ...headers,
      ETag: etag,
    },
    body,
  ),
  body,
});

export const pictureOf = (type: "image/svg+xml" | "image/png", body: string | Buffer): Tagged =>
  tag({
    type,
    body,
    headers: { ...OPEN_TO_ALL, "Content-Security-Policy": policy("sandbox") },
  });
