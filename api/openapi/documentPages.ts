import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import type { Page } from "../http/requestContext.ts";
import { send, tag } from "../http/taggedResponses.ts";
import type { Rendered, Tagged } from "../http/taggedResponses.ts";

/** The page loads files only from this server and sends requests only to it. */
const HEADERS = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
};

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

const LIBRARY = [
  import.meta.resolve("swagger-ui-dist/swagger-ui.css"),
  import.meta.resolve("swagger-ui-dist/swagger-ui-bundle.js"),
  import.meta.resolve("swagger-ui-dist/favicon-32x32.png"),
];

/** Renders what a path has when it is first requested, because most processes never send it. */
const filePage = ([path, render]: readonly [string, () => Rendered | Promise<Rendered>]): Page => {
  let tagged: Tagged | null = null;
  return {
    path,
    run: async (ctx) => {
      tagged ??= tag(await render());
      send(ctx, tagged, "no-cache");
    },
  };
};

/** @param createDocument takes 100 ms of CPU time */
export const documentPages = (createDocument: () => object): readonly Page[] => [
  // `npm start` prints the base URL.
  { path: "/", run: (ctx) => ctx.redirect("docs") },
  // The page's links are relative to a path without a slash, so that it works behind any base path.
  { path: "/docs/", run: (ctx) => ctx.redirect("../docs") },
  ...Object.entries({
    "/openapi.json": () => ({ type: "application/json", body: JSON.stringify(createDocument()) }),
    "/docs": () => ({ type: "text/html", body: HTML, headers: HEADERS }),
    "/docs/start.js": () => ({ type: "text/javascript", body: START_SCRIPT }),
  }).map(filePage),
  ...LIBRARY.map((url) => {
    const name = basename(url);
    return filePage([
      `/docs/${name}`,
      async () => ({ type: name, body: await readFile(new URL(url)) }),
    ]);
  }),
];
