import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";
import { DEFAULT_PROFILE } from "../../modules/accounts/profile.rules.ts";
import { StartupError } from "../../runtime/errors.rules.ts";
import { impactCommand } from "../../runtime/impactCommand.ts";
import { isLoopback } from "../../runtime/loopback.rules.ts";
import type { RequestContext } from "../http/requestContext.ts";
import { send, tag } from "../http/taggedResponses.ts";
import { html } from "../pages/html.ts";
import type { Markup } from "../pages/html.ts";
import { documentPolicy, linksOf, renderDocument, renderHeader } from "../pages/renderDocument.ts";
import { PAGE_STYLE } from "../pages/styles.ts";
import type { FurtherPages } from "./createStandaloneApp.ts";

/* The pages of `npm start -- --demo`: what there is to see and to try, and a shop with the card and the badge. */

const STYLE = `${PAGE_STYLE}
.tour{display:grid;gap:1rem;grid-template-columns:minmax(0,1fr)}
.tour h3 a{text-decoration-thickness:2px}
.tour p{margin:.35rem 0 0;color:var(--soft);font-size:.9375rem}
.commands dt{font-weight:400}.commands dd{max-width:none}
pre{margin:.4rem 0 0;padding:.7rem .9rem;color:var(--ink);background:var(--paper);border:1px solid var(--line);border-radius:8px;white-space:pre-wrap;overflow-wrap:anywhere;user-select:all;font:.8125rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.product{display:grid;gap:1.75rem;grid-template-columns:minmax(0,1fr)}
.product .picture{background:var(--brand-soft);border-radius:14px;padding:1.5rem}
.product .picture svg{width:100%;height:auto;max-height:22rem}
.coat{fill:var(--brand)}.seam{fill:none;stroke:var(--sheet);stroke-width:3;stroke-linecap:round}
.price{font-size:1.375rem;font-weight:650;margin:.5rem 0 1rem}
.product iframe{border:1px solid var(--line);border-radius:10px;max-width:100%;margin:.75rem 0}
.product a img{margin:.25rem 0}
@media (min-width:46rem){.tour{grid-template-columns:repeat(3,minmax(0,1fr))}.tour.pair,.product{grid-template-columns:repeat(2,minmax(0,1fr))}}
`;

/** What `npm start -- --demo` has made, as it writes it to demo.json. */
const demoFile = z.object({
  organizationId: z.uuid(),
  shop: z.object({ name: z.string(), color: z.string(), domain: z.string() }),
  /** Paths of public pages, by what they show. */
  pages: z.object({
    page: z.string(),
    verified: z.string(),
    recent: z.string(),
    refunded: z.string(),
    donation: z.string(),
    order: z.string(),
  }),
  testKeys: z.object({ organization: z.string(), store: z.string() }),
});

type Demo = z.output<typeof demoFile> & {
  /** Starts commands with the demo's data folder. */
  readonly impact: string;
  readonly storeUrl: string;
};

const PLACEHOLDERS: Demo["testKeys"] = { organization: "TEST_KEY", store: "TEST_KEY" };

type Links = ReturnType<typeof linksOf>;

const renderLink = (title: string, url: string, text: string | Markup): Markup =>
  html`<div class="sheet">
    <h3><a href="${url}">${title}</a></h3>
    <p>${text}</p>
  </div>`;

const renderCommands = (commands: readonly (readonly [string, string])[]): Markup =>
  html`<dl class="sheet commands">
    ${commands.map(
      ([text, command]) =>
        html`<dt>${text}</dt>
          <dd><pre>${command}</pre></dd>`,
    )}
  </dl>`;

const renderSights = ({ shop, pages }: Demo, root: string): Markup =>
  html`<section aria-labelledby="see">
    <h2 id="see">What customers see</h2>
    <div class="tour">
      ${renderLink("The public page", root + pages.page, `What ${shop.name} has registered, and who verified how much of it.`)}
      ${renderLink("A sample shop", `${root}/demo/shop`, "A product page with the card, the badge and an order's certificate.")}
      ${renderLink("A certificate", root + pages.verified, "Trees that are planted and verified, with their photo.")}
    </div>
    <p>
      More certificates: <a href="${root}${pages.recent}">trees that wait to be planted</a>,
      <a href="${root}${pages.refunded}">refunded trees</a>,
      <a href="${root}${pages.donation}">a donation</a>.
    </p>
  </section>`;

const renderApis = ({ shop, testKeys, storeUrl }: Demo, { baseUrl, root }: Links): Markup =>
  html`<section aria-labelledby="apis">
    <h2 id="apis">What developers use</h2>
    <div class="tour pair">
      ${renderLink("Standalone API", `${root}/docs`, html`For organizations, billed monthly. <a href="${root}/openapi.json">OpenAPI document</a>`)}
      ${renderLink("Store-platform API", `${storeUrl}/docs`, html`For shops, paid from a prepaid balance. <a href="${storeUrl}/openapi.json">OpenAPI document</a>`)}
    </div>
    <p>
      The keys of these commands are test keys. Test records cost nothing and are not on the public
      page.
    </p>
    ${renderCommands([
      [
        "Register three trees. Repeat it: the order is registered once.",
        `curl -sS ${baseUrl}/plant/trees -H 'Authorization: ${testKeys.organization}' -H 'Content-Type: application/json' -d '{"count": 3, "idempotency_key": "my-first-order"}'`,
      ],
      [
        "Plant two trees for a customer's order of the shop.",
        `curl -sS ${storeUrl}/app/api/plant -H 'api_key: ${testKeys.store}' -H 'shop_name: ${shop.domain}' -H 'Content-Type: application/json' -d '{"trees": 2, "customer_name": "Ida Holm", "order_id": "#1"}'`,
      ],
    ])}
  </section>`;

const renderOperations = ({ organizationId, impact }: Demo): Markup =>
  html`<section aria-labelledby="operate">
    <h2 id="operate">What operators do</h2>
    <p>Run these commands in a second terminal, in the folder of the service.</p>
    ${renderCommands([
      [
        "Show the organization: its totals, limits and keys.",
        `${impact} org show ${organizationId}`,
      ],
      ["Find an order, with its billing and its evidence.", `${impact} find NS-1200`],
      [
        "Show what was billed this month.",
        `${impact} statement --org ${organizationId} --period current`,
      ],
      ["Check everything that the service depends on.", `${impact} doctor`],
      [
        "Issue a production key. What you register with it appears on the public page.",
        `${impact} key issue --org ${organizationId} --mode live`,
      ],
    ])}
  </section>`;

const renderDemo = (demo: Demo, links: Links): string =>
  renderDocument({
    title: "Demo of the impact tracking service",
    description: null,
    style: STYLE,
    profile: DEFAULT_PROFILE,
    links,
    isIndexed: false,
    body: html`${renderHeader(DEFAULT_PROFILE, { name: "Impact tracking service", kicker: "Demo", root: links.root })}
      <main>
        <p class="lead">
          PostgreSQL, Temporal, both APIs and a worker run on this machine, with a year of data of
          ${demo.shop.name}, an invented company. Its planting is simulated, and nothing is billed.
        </p>
        ${renderSights(demo, links.root)} ${renderApis(demo, links)} ${renderOperations(demo)}
      </main>
      <footer><p>To remove the demo, stop it and delete its data folder.</p></footer>`,
  });

/** The lines that docs/evidence.md gives to shops. */
const renderEmbeds = (page: string): readonly Markup[] => [
  html`<iframe src="${page}/card" title="Our impact" width="320" height="200"></iframe>`,
  html`<a href="${page}"><img src="${page}/badge.svg" alt="Trees registered" /></a>`,
];

const COAT = html`<svg viewBox="0 0 240 260" role="img" aria-label="A rain coat">
  <path
    class="coat"
    d="M88 22q32-24 64 0l14 20 44 26q14 46 14 112l-30 6-12-66 6 116q-68 14-136 0l6-116-12 66-30-6q0-66 14-112l44-26z"
  />
  <path class="seam" d="M120 46v196M88 22q32 44 64 0M74 168h24M142 168h24" />
</svg>`;

const renderShop = ({ shop, pages }: Demo, links: Links): string => {
  const profile = { ...DEFAULT_PROFILE, color: shop.color };
  const page = links.root + pages.page;
  return renderDocument({
    title: `Storm coat: ${shop.name}`,
    description: null,
    style: STYLE,
    profile,
    links,
    isIndexed: false,
    body: html`${renderHeader(profile, { name: shop.name, kicker: "Sample shop", root: links.root })}
      <main>
        <section class="product" aria-labelledby="product">
          <div class="picture">${COAT}</div>
          <div>
            <h2 id="product">Storm coat</h2>
            <p class="price">$189.00</p>
            <p>Waterproof, mended for free. We plant ten trees and rescue four bottles for each.</p>
            ${renderEmbeds(page)}
            <p>
              After the checkout, the customer gets a link:
              <a href="${links.root}${pages.order}">the certificate of the order</a>.
            </p>
          </div>
        </section>
        <section aria-labelledby="lines">
          <h2 id="lines">The card and the badge in this page's HTML</h2>
          ${renderEmbeds(links.baseUrl + pages.page).map(({ markup }) => html`<pre>${markup}</pre>`)}
        </section>
      </main>
      <footer>
        <p><a href="${links.root}/">Back to the demo</a></p>
      </footer>`,
  });
};

/**
 * Returns the pages of the demo that a file describes.
 * @param options.host that the server listens on. The pages show test keys only on this machine
 * @throws StartupError if another version has written the file
 */
export const demoPages = (
  file: string,
  {
    host,
    storeUrl,
    publicBaseUrl,
  }: {
    readonly host: string;
    readonly storeUrl: string;
    readonly publicBaseUrl: () => string;
  },
): FurtherPages => {
  const stored = demoFile.safeParse(JSON.parse(readFileSync(file, "utf8")));
  if (!stored.success) {
    throw new StartupError(
      `The demo in ${dirname(file)} was made by another version. Delete this folder, and start again.`,
    );
  }
  const demo = {
    ...stored.data,
    impact: impactCommand(dirname(file)),
    storeUrl,
  };
  // A site whose name leads to this machine must not read the keys from a visitor's browser.
  const isOwnName = (name: string): boolean =>
    isLoopback(name) || name === new URL(publicBaseUrl()).hostname;
  const serve =
    (render: typeof renderDemo, path: string, color: string | null) =>
    (ctx: RequestContext): void => {
      const mayShowKeys = isLoopback(host) && isOwnName(ctx.hostname);
      const shown = mayShowKeys ? demo : { ...demo, testKeys: PLACEHOLDERS };
      const body = render(shown, linksOf(publicBaseUrl(), path));
      const policy = documentPolicy(
        { style: STYLE, color },
        "frame-src 'self'",
        "frame-ancestors 'none'",
      );
      send(
        ctx,
        tag({
          type: "text/html; charset=utf-8",
          body,
          headers: { "Content-Security-Policy": policy },
        }),
        "no-store",
      );
    };
  return {
    pages: [{ path: "/demo/shop", run: serve(renderShop, "/demo/shop", demo.shop.color) }],
    browserFallbacks: [{ path: /^\/$/u, run: serve(renderDemo, "/", null) }],
  };
};
