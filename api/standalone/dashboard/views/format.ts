import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import { LONGEST_NUMBER } from "./styles.ts";

const numbers = new Intl.NumberFormat("en-US");
const measures = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
const months = new Intl.DateTimeFormat("en-US", {
  month: "long",
  year: "numeric",
  timeZone: "UTC",
});
const days = new Intl.DateTimeFormat("en-US", { dateStyle: "medium", timeZone: "UTC" });
const times = new Intl.DateTimeFormat("en-US", {
  dateStyle: "medium",
  timeStyle: "short",
  timeZone: "UTC",
});

export const formatNumber = (value: number): string => numbers.format(value);

export const formatMeasure = (value: number): string => measures.format(value);

/** @param month for example `2026-05` */
export const formatMonth = (month: string): string => months.format(new Date(`${month}-01T00:00Z`));

export const formatDay = (time: Date): string => days.format(time);

export const formatTime = (time: Date): string => `${times.format(time)} UTC`;

/** Renders a large number; the style sheet fits its type size to its length. */
export const renderNumber = (number: string): Markup =>
  html`<p class="number letters-${Math.min(number.length, LONGEST_NUMBER)}">${number}</p>`;
