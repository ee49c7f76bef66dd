import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";
import { DEFAULT_PROFILE } from "../../modules/accounts/profile.rules.ts";
import { StartupError } from "../../runtime/errors.rules.ts";
import { impactCommand } from "../../runtime/impactCommand.ts";
import { isLoopback } from "../../runtime/loopback.rules.ts";
import type { Page } from "../http/requestContext.ts";
import { send, tag } from "../http/taggedResponses.ts";
import { html } from "../pages/html.ts";
import type { Markup } from "../pages/html.ts";
import { linksOf, renderDocument, renderHeader, UNFRAMED } from "../pages/renderDocument.ts";
import type { PageLinks } from "../pages/renderDocument.ts";
import { PAGE_STYLE } from "../pages/styles.ts";

/* The pages of `npm start -- --demo`: what there is to see and to try, and a shop with the card and the badge. */

const STYLE = `${PAGE_STYLE}
dd{max-width:none}
pre{margin:.4rem 0 0;padding:.7rem .9rem;color:var(--ink);background:var(--paper);border:1px solid var(--line);border-radius:8px;white-space:pre-wrap;overflow-wrap:anywhere;user-select:all;font:.8125rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.product{display:grid;gap:1.75rem;grid-template-columns:repeat(auto-fit,minmax(min(20rem,100%),1fr))}
.coat{width:100%;max-height:24rem;padding:1.5rem;background:var(--brand-soft);border-radius:14px;fill:var(--brand)}
.product iframe{border:1px solid var(--line);border-radius:10px;max-width:100%}
`;

/** What `npm start -- --demo` has made, as it writes it to demo.json. */
const demoFile = z.object({
  organizationId: z.uuid(),
  shop: z.object({ name: z.string(), color: z.string(), domain: z.string() }),
  /** Paths of public pages, by what they show. */
  pages: z.record(
    z.enum(["page", "verified", "recent", "refunded", "donation", "order"]),
    z.string(),
  ),
  testKeys: z.object({ organization: z.string(), store: z.string() }),
});

/** With the start of commands that use its data folder. */
type Demo = z.output<typeof demoFile> & { readonly impact: string; readonly storeUrl: string };

const renderTour = (
  { organizationId, shop, pages, testKeys, impact, storeUrl }: Demo,
  { baseUrl, root }: PageLinks,
): Markup => html`
  <p class="lead">
    PostgreSQL, Temporal, both APIs and a worker run on this machine, with a year of data of
    ${shop.name}, an invented company. Its planting is simulated, and nothing is billed. The keys
    below are test keys: what they register costs nothing and is not on the public page.
  </p>
  <section>
    <h2>What customers see</h2>
    <dl class="sheet">
      <dt><a href="${root}${pages.page}">The public page</a></dt>
      <dd>What ${shop.name} has registered, and who verified how much of it.</dd>
      <dt><a href="${root}/demo/shop">A sample shop</a></dt>
      <dd>A product page with the card, the badge and an order's certificate.</dd>
      <dt><a href="${root}${pages.verified}">A certificate</a></dt>
      <dd>
        Trees that are planted and verified, with their photo. More certificates:
        <a href="${root}${pages.recent}">trees that wait to be planted</a>,
        <a href="${root}${pages.refunded}">refunded trees</a>,
        <a href="${root}${pages.donation}">a donation</a>.
      </dd>
    </dl>
  </section>
  <section>
    <h2>What developers use</h2>
    <dl class="sheet">
      <dt><a href="${root}/docs">Standalone API</a></dt>
      <dd>For organizations, billed monthly.</dd>
      <dt><a href="${storeUrl}/docs">Store-platform API</a></dt>
      <dd>For shops, paid from a prepaid balance.</dd>
      <dt>Register three trees. Repeat it: the order is registered once.</dt>
      <dd>
        <pre>
curl -sS ${baseUrl}/plant/trees -H 'Authorization: ${testKeys.organization}' -H 'Content-Type: application/json' -d '{"count": 3, "idempotency_key": "my-first-order"}'</pre>
      </dd>
      <dt>Plant two trees for a customer's order of the shop.</dt>
      <dd>
        <pre>
curl -sS ${storeUrl}/app/api/plant -H 'api_key: ${testKeys.store}' -H 'shop_name: ${shop.domain}' -H 'Content-Type: application/json' -d '{"trees": 2, "customer_name": "Ida Holm", "order_id": "#1"}'</pre>
      </dd>
    </dl>
  </section>
  <section>
    <h2>What operators do, in a second terminal</h2>
    <dl class="sheet">
      <dt>Show the organization: its totals, limits and keys.</dt>
      <dd><pre>${impact} org show ${organizationId}</pre></dd>
      <dt>Find an order, with its billing and its evidence.</dt>
      <dd><pre>${impact} find NS-1200</pre></dd>
      <dt>Show what was billed this month.</dt>
      <dd><pre>${impact} statement --org ${organizationId} --period current</pre></dd>
      <dt>Check everything that the service depends on.</dt>
      <dd><pre>${impact} doctor</pre></dd>
      <dt>Issue a production key. What you register with it appears on the public page.</dt>
      <dd><pre>${impact} key issue --org ${organizationId} --mode live</pre></dd>
    </dl>
  </section>
`;

/** The lines that docs/evidence.md gives to shops. */
const renderEmbeds = (page: string): readonly Markup[] => [
  html`<iframe src="${page}/card" title="Our impact" width="320" height="200"></iframe>`,
  html`<a href="${page}"><img src="${page}/badge.svg" alt="Trees registered" /></a>`,
];

const renderShop = ({ pages }: Demo, { baseUrl, root }: PageLinks): Markup =>
  html`<section class="product">
      <svg class="coat" viewBox="0 0 240 260" role="img" aria-label="A rain coat">
        <path
          d="M88 22q32-24 64 0l14 20 44 26q14 46 14 112l-30 6-12-66 6 116q-68 14-136 0l6-116-12 66-30-6q0-66 14-112l44-26z"
        />
      </svg>
      <div>
        <h2>Storm coat, $189.00</h2>
        <p>Waterproof, mended for free. We plant ten trees and rescue four bottles for each.</p>
        ${renderEmbeds(root + pages.page)}
        <p>
          After the checkout, the customer gets a link:
          <a href="${root}${pages.order}">the certificate of the order</a>.
        </p>
      </div>
    </section>
    <section>
      <h2>The card and the badge in this page's HTML</h2>
      ${renderEmbeds(baseUrl + pages.page).map(({ markup }) => html`<pre>${markup}</pre>`)}
    </section>`;

/**
 * Returns the pages of the demo that a file describes.
 * @param options.host that the server listens on
 * @throws StartupError if another version has written the file
 */
export const demoPages = (
  file: string,
  options: {
    readonly host: string;
    readonly storeUrl: string;
    readonly publicBaseUrl: () => string;
  },
): readonly Page[] => {
  const { data } = demoFile.safeParse(JSON.parse(readFileSync(file, "utf8")));
  if (data === undefined) {
    throw new StartupError(
      `The demo in ${dirname(file)} was made by another version. Delete this folder, and start again.`,
    );
  }
  const demo = { ...data, impact: impactCommand(dirname(file)), storeUrl: options.storeUrl };
  const profile = { ...DEFAULT_PROFILE, color: data.shop.color };
  const page = (
    path: string,
    { name, kicker, render }: { name: string; kicker: string; render: typeof renderTour },
  ): Page => ({
    path,
    run: (ctx) => {
      // A site whose name leads to this machine must not read the keys from a visitor's browser.
      const shown =
        isLoopback(options.host) && isLoopback(ctx.hostname)
          ? demo
          : { ...demo, testKeys: { organization: "TEST_KEY", store: "TEST_KEY" } };
      const links = linksOf(options.publicBaseUrl(), path);
      const rendered = renderDocument({
        title: `${kicker}: ${name}`,
        style: STYLE,
        profile,
        links,
        directives: ["frame-src 'self'", UNFRAMED],
        body: html`${renderHeader(profile, { name, kicker, root: links.root })}
          <main>${render(shown, links)}</main>
          <footer>
            <p>
              <a href="${links.root}/">Start page of the demo</a>. To remove the demo, stop it and
              delete its data folder.
            </p>
          </footer>`,
      });
      send(ctx, tag(rendered), "no-store");
    },
  });
  return [
    page("/", { name: "Impact tracking service", kicker: "Demo", render: renderTour }),
    page("/demo/shop", { name: data.shop.name, kicker: "Sample shop", render: renderShop }),
  ];
};
