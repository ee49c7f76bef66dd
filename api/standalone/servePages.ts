import { hash } from "node:crypto";
import type { RequestContext } from "../http/requestContext.ts";
import { tag } from "../http/taggedResponses.ts";
import type { Tagged } from "../http/taggedResponses.ts";

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
  (run: (ctx: RequestContext) => Promise<void>) =>
  (ctx: RequestContext): Promise<void> => {
    ctx.set(OPEN_TO_ALL);
    return run(ctx);
  };

export const pictureOf = (type: "image/svg+xml" | "image/png", body: string | Buffer): Tagged =>
  tag({
    type,
    body,
    headers: { ...OPEN_TO_ALL, "Content-Security-Policy": policy("sandbox") },
  });
