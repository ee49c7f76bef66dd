import { readFile } from "node:fs/promises";
import { z } from "zod";
import { StartupError } from "../../runtime/errors.rules.ts";

/** What the first start has made, as it writes it to demo.json. */
const demoFile = z.object({
  organizationId: z.uuid(),
  shop: z.object({ domain: z.string() }),
  /** Paths of public pages, by what they show. */
  pages: z.record(
    z.enum(["page", "verified", "recent", "refunded", "donation", "order"]),
    z.string(),
  ),
  testKeys: z.object({ organization: z.string(), store: z.string() }),
});

const curl = (url: string, keys: string, body: string): string =>
  `  curl -sS ${url} ${keys} -H 'Content-Type: application/json' -d '${body}'`;

/**
 * Returns what there is to see in a demo and to try.
 * @param impact starts commands with the demo's data folder
 * @throws StartupError if another version has written the file
 */
export const describeDemo = async (
  file: string,
  {
    apiUrl,
    storeUrl,
    impact,
  }: { readonly apiUrl: string; readonly storeUrl: string; readonly impact: string },
): Promise<string> => {
  const stored = demoFile.safeParse(JSON.parse(await readFile(file, "utf8")));
  if (!stored.success) {
    throw new StartupError(
      `The demo of ${file} was made by another version. Delete its folder, and start again.`,
    );
  }
  const { organizationId, shop, pages, testKeys } = stored.data;
  return `Public pages of the demo, for a browser:
  the organization        ${apiUrl}${pages.page}
  its card and badge      ${apiUrl}${pages.page}/card and /badge.svg
  verified trees          ${apiUrl}${pages.verified}
  trees to be planted     ${apiUrl}${pages.recent}
  refunded trees          ${apiUrl}${pages.refunded}
  a donation              ${apiUrl}${pages.donation}
  an order of the shop    ${apiUrl}${pages.order}
Commands to try in a second terminal; the keys are test keys:
${curl(`${apiUrl}/plant/trees`, `-H 'Authorization: ${testKeys.organization}'`, '{"count": 3, "idempotency_key": "my-first-order"}')}
${curl(`${storeUrl}/app/api/plant`, `-H 'api_key: ${testKeys.store}' -H 'shop_name: ${shop.domain}'`, '{"trees": 2, "customer_name": "Ida Holm", "order_id": "#1"}')}
  ${impact} org show ${organizationId}
  ${impact} find NS-1200
  ${impact} statement --org ${organizationId} --period current
  ${impact} doctor
`;
};
