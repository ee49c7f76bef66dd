import type { MonthTotals } from "../../../../services/dashboard/readDashboard.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import { formatMonth, formatNumber } from "./format.ts";

const BAR_WIDTH = 6;
const COLUMN = 10;
const HEIGHT = 100;

/** Returns at least a visible height unless the month has nothing. */
const barHeight = (value: number, maximum: number): number =>
  value === 0 ? 0 : Math.max(1.5, (value / maximum) * HEIGHT);

/** Renders a bar chart. The picture stretches, so its labels are text outside of it. */
export const renderMonthChart = (
  title: string,
  kind: "trees" | "bottles",
  months: readonly MonthTotals[],
): Markup => {
  const maximum = Math.max(...months.map((totals) => totals[kind]));
  const sum = months.reduce((running, totals) => running + totals[kind], 0);
  return html`<figure class="chart ${kind}">
    <figcaption>
      <strong>${title}</strong>
      <span>${formatNumber(sum)} in twelve months; ${formatNumber(maximum)} in the best month</span>
    </figcaption>
    <svg
      viewBox="0 0 ${months.length * COLUMN} ${HEIGHT}"
      preserveAspectRatio="none"
      role="img"
      aria-label="${title} by month; the table below shows the numbers"
    >
      <path
        class="grid"
        d="M0 0H${months.length * COLUMN}M0 ${HEIGHT / 2}H${months.length * COLUMN}M0 ${HEIGHT}H${months.length * COLUMN}"
      />
      ${months.map((totals, index) => {
        const height = barHeight(totals[kind], maximum);
        return html`<rect
          x="${index * COLUMN + (COLUMN - BAR_WIDTH) / 2}"
          y="${(HEIGHT - height).toFixed(2)}"
          width="${BAR_WIDTH}"
          height="${height.toFixed(2)}"
          ><title>${formatMonth(totals.month)}: ${formatNumber(totals[kind])}</title></rect
        >`;
      })}
    </svg>
    <div class="axis" aria-hidden="true">
      ${months.map(({ month }) => html`<span>${formatMonth(month).slice(0, 3)}</span>`)}
    </div>
  </figure>`;
};
