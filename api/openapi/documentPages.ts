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
    <link rel="stylesheet" href="docs/contrast.css" />
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

/**
 * The library's style sheet has a dark mode, and leaves it to the page to turn it on. Without `validatorUrl`, the page would
 * load a badge from swagger.io.
 */
const START_SCRIPT = `const dark = matchMedia("(prefers-color-scheme: dark)");
const followColorScheme = () =>
  document.documentElement.classList.toggle("dark-mode", dark.matches);
followColorScheme();
dark.addEventListener("change", followColorScheme);
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#description",
  deepLinking: true,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
});
`;

/** The library's colors that have less contrast than WCAG 2.2 requires of text (level AA). */
const CONTRAST_STYLE = `html:not(.dark-mode) .swagger-ui .opblock .opblock-summary-method{color:#000;text-shadow:none}
html:not(.dark-mode) .swagger-ui .info a{color:#1f69c0}
html:not(.dark-mode) .swagger-ui .info .title small{background:#5b6270}
html:not(.dark-mode) .swagger-ui .info .title small.version-stamp{background:#4a6a00}
html:not(.dark-mode) .swagger-ui .btn.authorize{border-color:#13794b;color:#13794b}
html:not(.dark-mode) .swagger-ui .btn.cancel{border-color:#c62828;color:#c62828}
html:not(.dark-mode) .swagger-ui .btn.execute{background:#1f69c0;border-color:#1f69c0}
html:not(.dark-mode) .swagger-ui .parameter__in{color:#595959}
html.dark-mode .swagger-ui .opblock .opblock-section-header .try-out__btn.cancel{border-color:#ff9a9a;color:#ff9a9a}
html.dark-mode .swagger-ui .header-col{color:#e4e6e6}
.swagger-ui .microlight span[style*="211, 99, 99"]{color:#ff9d9d!important}
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
    { path: "/docs/contrast.css", run: sendText("text/css", CONTRAST_STYLE) },
    { path: "/docs/start.js", run: sendText("text/javascript", START_SCRIPT) },
    ...Object.entries(LIBRARY).map(([name, url]) => ({
      path: `/docs/${name}`,
      run: sendFile(name, url),
    })),
  ];
};
