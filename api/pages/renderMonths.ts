import { showsUnits } from "./figures.ts";
import { UNIT_FIELDS } from "../../modules/accounts/profile.rules.ts";
import type { UnitField } from "../../modules/accounts/profile.rules.ts";
import { KINDS } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import type { Dashboard, MonthTotals } from "../../modules/dashboard/readDashboard.ts";
import { formatMonth, formatNumber, formatShort, formatShortMonth } from "./format.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";

const MOST_STEPS = 4;

/** Returns a round step, 1, 2 or 5 times a power of ten, of which a few reach the maximum. */
const stepOf = (maximum: number): number => {
  const least = Math.max(1, maximum / MOST_STEPS);
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= least) ?? 10);
};

type Axis = { readonly maximum: number; readonly ticks: readonly number[] };

const axisOf = (maximum: number): Axis => {
  const step = stepOf(maximum);
  const steps = Math.ceil(maximum / step);
  return {
    maximum: steps * step,
    ticks: Array.from({ length: steps + 1 }, (_, index) => index * step),
  };
};

/** Returns the class of a height in percent of the axis. A value above zero is always visible. */
const heightOf = (value: number, { maximum }: Axis): string =>
  `h-${value === 0 ? 0 : Math.max(1, Math.round((value / maximum) * 100))}`;

/** Returns what stands beside a month that is not over: the last one, which is the current one. */
const progressOf = (index: number, months: readonly MonthTotals[]): string | null =>
  index === months.length - 1 ? " so far" : null;

/** The year stands below the first month and below each January. */
const yearOf = ({ month }: MonthTotals, index: number): string | null =>
  index === 0 || month.endsWith("-01") ? month.slice(0, 4) : null;

/** Renders a bar chart as a list: bars are columns on a desktop and rows on a phone. */
const renderChart = (title: string, unit: UnitField, months: readonly MonthTotals[]): Markup => {
  const axis = axisOf(Math.max(1, ...months.map((totals) => totals[unit])));
  const sum = months.reduce((running, totals) => running + totals[unit], 0);
  return html`<figure class="chart ${unit}">
    <figcaption><strong>${title}</strong> ${formatNumber(sum)} in twelve months</figcaption>
    <div class="plot">
      <div class="ticks" aria-hidden="true">
        ${axis.ticks.map((tick) => html`<span class="${heightOf(tick, axis)}">${formatShort(tick)}</span>`)}
      </div>
      <ol class="bars">
        ${months.map(
          (totals, index) =>
            html`<li class="${heightOf(totals[unit], axis)}">
              <span class="month"
                >${formatShortMonth(totals.month)}
                <span class="year">${yearOf(totals, index)}${progressOf(index, months)}</span></span
              >
              <span class="column"
                ><span class="value">${formatShort(totals[unit])}</span><span class="bar"></span
              ></span>
            </li>`,
        )}
      </ol>
    </div>
  </figure>`;
};

const CHARTS = {
  tree: { unit: UNIT_FIELDS.tree, title: "Trees registered", heading: "Trees" },
  bottle: { unit: UNIT_FIELDS.bottle, title: "Bottles rescued", heading: "Bottles" },
} as const satisfies Record<Kind, { unit: UnitField; title: string; heading: string }>;

export const renderMonths = (dashboard: Dashboard): Markup => {
  const { months } = dashboard;
  const shown = KINDS.map((kind) => CHARTS[kind]).filter(
    ({ unit }) => months.some((totals) => totals[unit] > 0) && showsUnits(dashboard, unit),
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
