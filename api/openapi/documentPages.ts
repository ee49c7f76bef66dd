import { readFile } from "node:fs/promises";
import type { Page } from "../http/requestContext.ts";
import { send, tag } from "../http/taggedResponses.ts";
import type { Rendered, Tagged } from "../http/taggedResponses.ts";

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

/** Renders what a path has when it is first requested, because most processes never send it. */
const sendRendered = (render: () => Rendered | Promise<Rendered>): Page["run"] => {
  let tagged: Tagged | null = null;
  return async (ctx) => {
    tagged ??= tag(await render());
    send(ctx, tagged, "no-cache");
  };
};

/** @param createDocument takes 100 ms of CPU time */
export const documentPages = (createDocument: () => object): readonly Page[] => [
  // `npm start` prints the base URL.
  { path: "/", run: (ctx) => ctx.redirect("docs") },
  {
    path: "/openapi.json",
    run: sendRendered(() => ({ type: "application/json", body: JSON.stringify(createDocument()) })),
  },
  {
    path: "/docs",
    run: sendRendered(() => ({
      type: "text/html",
      body: HTML,
      headers: { "Content-Security-Policy": CONTENT_SECURITY_POLICY },
    })),
  },
  // The page's links are relative to a path without a slash, so that it works behind any base path.
  { path: "/docs/", run: (ctx) => ctx.redirect("../docs") },
  {
    path: "/docs/start.js",
    run: sendRendered(() => ({ type: "text/javascript", body: START_SCRIPT })),
  },
  ...Object.entries(LIBRARY).map(([name, url]) => ({
    path: `/docs/${name}`,
    run: sendRendered(async () => ({ type: name, body: await readFile(new URL(url)) })),
  })),
];
