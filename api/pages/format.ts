import { domainToUnicode } from "node:url";
import type { Kind } from "../../modules/records/owner.rules.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import { LONGEST_NUMBER } from "./styles.ts";

const numbers = new Intl.NumberFormat("en-US");
const compactNumbers = new Intl.NumberFormat("en-US", {
  notation: "compact",
  maximumFractionDigits: 1,
});
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

/** From here on, a number is too long for the label of a bar. */
const LONG = 1_000_000;

/** Formats a number for a narrow place: long ones as `1.2M`. */
export const formatShort = (value: number): string =>
  value < LONG ? formatNumber(value) : compactNumbers.format(value);

const UNITS = {
  tree: { one: "tree", many: "trees" },
  bottle: { one: "ocean-bound bottle", many: "ocean-bound bottles" },
} as const satisfies Record<Kind, { one: string; many: string }>;

export const nameUnits = (kind: Kind, count: number): string =>
  count === 1 ? UNITS[kind].one : UNITS[kind].many;

export const formatMeasure = (value: number): string => measures.format(value);

const shortMonths = new Intl.DateTimeFormat("en-US", { month: "short", timeZone: "UTC" });

/** @param month for example `2026-05` */
export const formatShortMonth = (month: string): string =>
  shortMonths.format(new Date(`${month}-01T00:00Z`));

/** @param month for example `2026-05` */
export const formatMonth = (month: string): string => months.format(new Date(`${month}-01T00:00Z`));

const degrees = new Intl.NumberFormat("en-US", {
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
});

export const formatCoordinates = (latitude: number, longitude: number): string =>
  `${degrees.format(Math.abs(latitude))}° ${latitude < 0 ? "S" : "N"}, ` +
  `${degrees.format(Math.abs(longitude))}° ${longitude < 0 ? "W" : "E"}`;

/** Formats a URL's host as people write it: a URL has letters beyond ASCII in Punycode. */
export const formatHost = (url: string): string => {
  const { hostname, port } = new URL(url);
  return domainToUnicode(hostname) + (port === "" ? "" : `:${port}`);
};

const NO_BREAK_SPACE = "\u00A0";

/** Formats a day so that it stays on one line. */
export const formatDay = (time: Date): string => days.format(time).replaceAll(" ", NO_BREAK_SPACE);

export const formatTime = (time: Date): string => `${times.format(time)} UTC`;

/** Renders a large number; the style sheet fits its type size to its length. */
export const renderNumber = (number: string): Markup =>
  html`<span class="number letters-${Math.min(number.length, LONGEST_NUMBER)}">${number}</span>`;
