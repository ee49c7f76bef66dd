import type { MonthTotals } from "../../../services/dashboard/readDashboard.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import { formatMonth, formatNumber } from "./format.ts";

const BAR_WIDTH = 6;
const COLUMN = 10;
const HEIGHT = 100;

/** A month with anything at all is seen. */
const barHeight = (value: number, most: number): number =>
  value === 0 ? 0 : Math.max(1.5, (value / most) * HEIGHT);

/** Bars by month. The picture stretches, so that its words stand outside of it, as text. */
export const renderMonthChart = (
  title: string,
  kind: "trees" | "bottles",
  months: readonly MonthTotals[],
): Markup => {
  const most = Math.max(1, ...months.map((totals) => totals[kind]));
  const sum = months.reduce((running, totals) => running + totals[kind], 0);
  return html`<figure class="chart ${kind}">
    <figcaption>
      <strong>${title}</strong>
      <span
        >${formatNumber(sum)} in twelve months, ${formatNumber(most === 1 && sum === 0 ? 0 : most)}
        in the strongest</span
      >
    </figcaption>
    <svg
      viewBox="0 0 ${months.length * COLUMN} ${HEIGHT}"
      preserveAspectRatio="none"
      role="img"
      aria-label="${title} by month; the table below has the numbers"
    >
      <path
        class="grid"
        d="M0 0H${months.length * COLUMN}M0 ${HEIGHT / 2}H${months.length * COLUMN}M0 ${HEIGHT}H${months.length * COLUMN}"
      />
      ${months.map((totals, index) => {
        const height = barHeight(totals[kind], most);
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
