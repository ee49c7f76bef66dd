import { UNIT_FIELDS } from "../../modules/accounts/profile.rules.ts";
import type { UnitField } from "../../modules/accounts/profile.rules.ts";
import type { MonthTotals } from "../../modules/dashboard/readDashboard.ts";
import { formatMonth, formatNumber, formatShort } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";

const TITLES = {
  trees: "Trees registered",
  bottles: "Bottles rescued",
} as const satisfies Record<UnitField, string>;

/** Returns the height of a bar in percent of the largest one. A value above zero is always visible. */
const heightOf = (value: number, largest: number): number =>
  value === 0 ? 0 : Math.max(1, Math.round((value / largest) * 100));

/** Renders a bar chart as a list: bars are columns on a desktop and rows on a phone. */
const renderChart = (unit: UnitField, months: readonly MonthTotals[]): Markup => {
  const largest = Math.max(1, ...months.map((totals) => totals[unit]));
  const sum = months.reduce((running, totals) => running + totals[unit], 0);
  return html`<figure class="chart ${unit}">
    <figcaption><strong>${TITLES[unit]}</strong> ${formatNumber(sum)} in twelve months</figcaption>
    <ol class="bars">
      ${months.map(({ month, [unit]: value }, index) => {
        const year = index === 0 || month.endsWith("-01") ? month.slice(0, 4) : null;
        // The last month is the current one, which is not over.
        const progress = index === months.length - 1 ? " so far" : null;
        return html`<li class="h-${heightOf(value, largest)}">
          <span class="month"
            >${formatMonth(month)} <span class="year">${year}${progress}</span></span
          >
          <span class="column"
            ><span class="value" title="${formatNumber(value)}">${formatShort(value)}</span
            ><span class="bar"></span
          ></span>
        </li>`;
      })}
    </ol>
  </figure>`;
};

/** Renders the units of the last months, without refunds, as a chart for each kind that has any. */
export const renderMonths = (months: readonly MonthTotals[]): Markup =>
  html`<section aria-labelledby="months">
    <h2 id="months">Month by month</h2>
    <div class="sheet">
      ${Object.values(UNIT_FIELDS)
        .filter((unit) => months.some((totals) => totals[unit] > 0))
        .map((unit) => renderChart(unit, months))}
    </div>
  </section>`;
