import type { UnitField } from "../../modules/accounts/profile.rules.ts";
import type { Markup } from "./html.ts";
import { html } from "./html.ts";
import { LONGEST_NUMBER } from "./styles.ts";

const numbers = new Intl.NumberFormat("en-US");
const roughNumbers = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 2 });
const compactNumbers = new Intl.NumberFormat("en-US", {
  notation: "compact",
  maximumFractionDigits: 1,
});
const inUtc = (options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat =>
  new Intl.DateTimeFormat("en-US", { ...options, timeZone: "UTC" });
const months = inUtc({ month: "short" });
const days = inUtc({ dateStyle: "medium" });
const times = inUtc({ dateStyle: "medium", timeStyle: "short" });

export const formatNumber = (value: number): string => numbers.format(value);

/** Formats a projection, which has no more than two exact digits. */
export const formatRough = (value: number): string => roughNumbers.format(value);

/** From here on, a number is too long for the label of a bar. */
const LONG = 1_000_000;

/** Formats a number for a narrow place: long ones as `1.2M`. */
export const formatShort = (value: number): string =>
  value < LONG ? formatNumber(value) : compactNumbers.format(value);

export const nameUnits = (unit: UnitField, count: number): string => {
  const name = unit === "trees" ? "tree" : "ocean-bound bottle";
  return count === 1 ? name : `${name}s`;
};

/** @param month for example `2026-05` */
export const formatMonth = (month: string): string => months.format(new Date(`${month}-01T00:00Z`));

export const formatCoordinates = (latitude: number, longitude: number): string =>
  `${Math.abs(latitude).toFixed(2)}° ${latitude < 0 ? "S" : "N"}, ` +
  `${Math.abs(longitude).toFixed(2)}° ${longitude < 0 ? "W" : "E"}`;

const NO_BREAK_SPACE = "\u00A0";

/** Formats a day so that it stays on one line. */
export const formatDay = (time: Date | string): string =>
  days.format(new Date(time)).replaceAll(" ", NO_BREAK_SPACE);

export const formatTime = (time: Date): string => `${times.format(time)} UTC`;

const MOST_SPECIES = 4;

export const listSpecies = (names: readonly string[]): string => {
  const rest = names.length - MOST_SPECIES;
  const shown = names.slice(0, MOST_SPECIES).join(", ");
  return rest > 0 ? `${shown} and ${rest} more` : shown;
};

/** Renders a large number; the style sheet fits its type size to its length. */
export const renderNumber = (number: string): Markup =>
  html`<span class="number letters-${Math.min(number.length, LONGEST_NUMBER)}">${number}</span>`;
