import { listShownKinds } from "./figures.ts";
import { PLANTED_KIND } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { IMPACT_FACTORS } from "../../modules/planting/impactFactors.rules.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { formatNumber } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";

const renderFactors = (sites: Dashboard["sites"]): Markup => {
  const used = new Set(sites.map(({ factorId }) => factorId));
  return html`<table class="factors">
    <caption>
      Impact factors in use
    </caption>
    <thead>
      <tr>
        <th scope="col">Forest</th>
        <th scope="col" class="count">kg CO<sub>2</sub> per tree</th>
        <th scope="col" class="count">Trees per ha</th>
        <th scope="col" class="count">Years</th>
      </tr>
    </thead>
    <tbody>
      ${IMPACT_FACTORS.filter(({ id }) => used.has(id)).map(
        (factor) =>
          html`<tr>
            <th scope="row">
              ${factor.forestType} (<a href="${factor.source.url}" rel="noopener noreferrer"
                >${factor.source.title}</a
              >)
            </th>
            <td class="count" data-label="kg CO₂ per tree">${formatNumber(factor.kgCo2PerTree)}</td>
            <td class="count" data-label="Trees per ha">${formatNumber(factor.treesPerHectare)}</td>
            <td class="count" data-label="Years">${factor.horizonYears}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
};

/** Names what is registered; null if the page has donations only. An empty page explains trees. */
const namesOfRegistered = (dashboard: Dashboard): string | null => {
  const kinds = listShownKinds(dashboard);
  if (kinds.length > 0) {
    return kinds.join(" and ");
  }
  return dashboard.sections.has("donations") ? null : PLANTED_KIND;
};

/** What the numbers of kinds without evidence mean. */
const UNPROVEN = {
  bottle: {
    title: "Rescued bottles",
    meaning: "The registered bottles. There is no evidence for single registrations.",
  },
} satisfies Record<Exclude<Kind, typeof PLANTED_KIND>, { title: string; meaning: string }>;

const renderRegistered = (names: string): Markup =>
  html`<dt>Registered</dt>
    <dd>
      Every ${names} registered for this organization. A refund lowers the total and the month of
      the registration. Months are in UTC.
    </dd>`;

/** Says what each number means, and only of numbers that the page has. */
export const renderMethod = (dashboard: Dashboard): Markup => {
  const { sites, sections, trees } = dashboard;
  const names = namesOfRegistered(dashboard);
  return html`<section aria-labelledby="method">
    <h2 id="method">How these numbers are calculated</h2>
    <div class="sheet">
      <dl>
        ${names === null ? null : renderRegistered(names)}
        ${
          trees.total === 0
            ? null
            : html`<dt>Planted</dt>
                <dd>Trees that the planting partner has reported as planted.</dd>
                <dt>Planted and verified</dt>
                <dd>
                  Planted trees that an independent assessor has verified on site. Planting and
                  verification take months, so this number follows the registered one with a delay.
                </dd>`
        }
        ${listShownKinds(dashboard)
          .filter((kind) => kind !== PLANTED_KIND)
          .map(
            (kind) =>
              html`<dt>${UNPROVEN[kind].title}</dt>
                <dd>${UNPROVEN[kind].meaning}</dd>`,
          )}
        ${
          sections.has("donations")
            ? html`<dt>Donated</dt>
                <dd>
                  Donations recorded for this organization, in US dollars, without refunded ones.
                  There is no evidence of the payments here.
                </dd>`
            : null
        }
        ${
          sections.has("carbon")
            ? html`<dt>Projected carbon and area</dt>
                <dd>
                  Planted trees multiplied by the factors below: a projection over the lifetime of a
                  tree, neither a measurement nor a carbon credit.
                </dd>`
            : null
        }
      </dl>
      ${sections.has("carbon") ? renderFactors(sites) : null}
    </div>
  </section>`;
};
