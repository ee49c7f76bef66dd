import { KINDS } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { UNIT_FIELDS } from "../../modules/accounts/profile.rules.ts";
import type { UnitField } from "../../modules/accounts/profile.rules.ts";
import type { Dashboard, MonthTotals } from "../../modules/dashboard/readDashboard.ts";
import { formatMonth, formatNumber, formatShort } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";

const CHARTS = {
  tree: { unit: UNIT_FIELDS.tree, title: "Trees registered", heading: "Trees" },
  bottle: { unit: UNIT_FIELDS.bottle, title: "Bottles rescued", heading: "Bottles" },
} as const satisfies Record<Kind, { unit: UnitField; title: string; heading: string }>;

/** Returns the height of a bar in percent of the largest one. A value above zero is always visible. */
const heightOf = (value: number, largest: number): number =>
  value === 0 ? 0 : Math.max(1, Math.round((value / largest) * 100));

/** Renders a bar chart as a list: bars are columns on a desktop and rows on a phone. */
const renderChart = (title: string, unit: UnitField, months: readonly MonthTotals[]): Markup => {
  const largest = Math.max(1, ...months.map((totals) => totals[unit]));
  const sum = months.reduce((running, totals) => running + totals[unit], 0);
  return html`<figure class="chart ${unit}">
    <figcaption><strong>${title}</strong> ${formatNumber(sum)} in twelve months</figcaption>
    <ol class="bars">
      ${months.map(
        ({ month, [unit]: value }, index) =>
          html`<li class="h-${heightOf(value, largest)}">
            <span class="month"
              >${formatMonth(month, true)}
              <span class="year"
                >${index === 0 || month.endsWith("-01") ? month.slice(0, 4) : null}${progressOf(index, months)}</span
              ></span
            >
            <span class="column"
              ><span class="value">${formatShort(value)}</span><span class="bar"></span
            ></span>
          </li>`,
      )}
    </ol>
  </figure>`;
};

/** The last month is the current one, which is not over. */
const progressOf = (index: number, months: readonly MonthTotals[]): string | null =>
  index === months.length - 1 ? " so far" : null;

/** Renders the units of the last months, as charts and as a table. */
export const renderMonths = ({ months, sections }: Dashboard): Markup => {
  const shown = KINDS.map((kind) => CHARTS[kind]).filter(
    ({ unit }) =>
      months.some((totals) => totals[unit] > 0) && (unit === "trees" || sections.has(unit)),
  );
  return html`<section aria-labelledby="months">
    <h2 id="months">Month by month</h2>
    <div class="sheet">
      ${shown.map(({ unit, title }) => renderChart(title, unit, months))}
      <details>
        <summary>Show as a table</summary>
        <div class="scroll" tabindex="0" role="region" aria-label="Totals by month">
          <table>
            <caption>
              Registered per calendar month (UTC), without refunds
            </caption>
            <thead>
              <tr>
                <th scope="col">Month</th>
                ${shown.map(({ heading }) => html`<th scope="col" class="count">${heading}</th>`)}
              </tr>
            </thead>
            <tbody>
              ${months.map(
                (totals, index) =>
                  html`<tr>
                    <th scope="row">${formatMonth(totals.month)}${progressOf(index, months)}</th>
                    ${shown.map(({ unit }) => html`<td class="count">${formatNumber(totals[unit])}</td>`)}
                  </tr>`,
              )}
            </tbody>
          </table>
        </div>
      </details>
    </div>
  </section>`;
};
