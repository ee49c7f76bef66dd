import { readFile } from "node:fs/promises";
import type { Page, RequestContext } from "../http/requestContext.ts";
import { send, tag } from "../http/taggedResponses.ts";
import type { Tagged } from "../http/taggedResponses.ts";

/** The page loads files only from this server and sends requests only to it. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const HTML = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>API of the impact tracking service</title>
    <link rel="stylesheet" href="docs/swagger-ui.css" />
    <link rel="icon" href="docs/favicon-32x32.png" />
  </head>
  <body>
    <div id="description">
      <noscript>This page needs JavaScript. Without it, read <a href="openapi.json">openapi.json</a>.</noscript>
    </div>
    <script src="docs/swagger-ui-bundle.js"></script>
    <script src="docs/start.js"></script>
  </body>
</html>
`;

/** Without `validatorUrl`, the page would load a badge from swagger.io. */
const START_SCRIPT = `SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#description",
  deepLinking: true,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
});
`;

const LIBRARY = {
  "swagger-ui.css": import.meta.resolve("swagger-ui-dist/swagger-ui.css"),
  "swagger-ui-bundle.js": import.meta.resolve("swagger-ui-dist/swagger-ui-bundle.js"),
  "favicon-32x32.png": import.meta.resolve("swagger-ui-dist/favicon-32x32.png"),
};

const sendText = (type: string, body: string, headers = {}): ((ctx: RequestContext) => void) => {
  const tagged = tag({ type, body, headers });
  return (ctx) => {
    send(ctx, tagged, "no-cache");
  };
};

/** Reads a file when it is first requested, because most processes never send it. */
const sendFile = (type: string, url: string): ((ctx: RequestContext) => Promise<void>) => {
  let tagged: Tagged | null = null;
  return async (ctx) => {
    tagged ??= tag({ type, body: await readFile(new URL(url)) });
    send(ctx, tagged, "no-cache");
  };
};

/** @param createDocument called for the first request: it takes 60 ms of CPU time, which most processes never need */
export const documentPages = (createDocument: () => object): readonly Page[] => {
  let sendJson: ((ctx: RequestContext) => void) | undefined;
  return [
    // `npm start` prints the base URL.
    { path: "/", run: (ctx) => ctx.redirect("docs") },
    {
      path: "/openapi.json",
      run: (ctx) => {
        sendJson ??= sendText("application/json", JSON.stringify(createDocument()));
        sendJson(ctx);
      },
    },
    {
      path: "/docs",
      run: sendText("text/html", HTML, { "Content-Security-Policy": CONTENT_SECURITY_POLICY }),
    },
    // The page's links are relative to a path without a slash, so that it works behind any base path.
    { path: "/docs/", run: (ctx) => ctx.redirect("../docs") },
    { path: "/docs/start.js", run: sendText("text/javascript", START_SCRIPT) },
    ...Object.entries(LIBRARY).map(([name, url]) => ({
      path: `/docs/${name}`,
      run: sendFile(name, url),
    })),
  ];
};
