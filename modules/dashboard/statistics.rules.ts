import { z } from "zod";
import type { AccountMode, RecordKind } from "../records/owner.rules.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { SHORT_TEXT_LENGTH } from "../records/fields.rules.ts";

export const INTERVALS = ["day", "month"] as const;
export type Interval = (typeof INTERVALS)[number];

/** The groups that have most; the others are summed up. */
export const MAXIMUM_GROUPS = 20;

/** Begins what groups by a value of metadata, before its key. */
export const METADATA = "metadata.";

/** Longer values of metadata are cut. */
export const MAXIMUM_GROUP_LENGTH = SHORT_TEXT_LENGTH;

/** Days in UTC, `YYYY-MM-DD`, both inclusive. */
export type DayRange = { readonly from: string; readonly to: string };

export type StatisticsQuery = AccountMode & {
  readonly kind: RecordKind;
  readonly range: DayRange;
  readonly interval: Interval;
  /** What records are grouped by: `attribution`, or `metadata.` and a key of theirs; null for no groups. */
  readonly groupBy: string | null;
};

const count = (description: string) => z.int().min(0).describe(description);

/** The units or donations of an interval, and of a group in it, as clients see them. */
export const statisticsJson = z
  .strictObject({
    start: z.iso.date().describe("The first day of the interval."),
    group: z
      .string()
      .nullable()
      .describe("Null for records without one, for the rest, and without `group_by`."),
    is_rest: z.boolean().describe("Whether this row sums up the groups that are not listed."),
    registered: count("Units, or donations, recorded in the interval."),
    refunded: count("Those of them that were refunded, at any later time."),
    net: count("Those that are not refunded."),
    registered_cents: count("Only of donations.").optional(),
    refunded_cents: count("Only of donations.").optional(),
    net_cents: count("Only of donations.").optional(),
  })
  .meta({ id: "StatisticsRow" });

/** Bounds the time of a query and the length of its result. */
const MAXIMUM_DAYS: Readonly<Record<Interval, number>> = { day: 366, month: 1830 };

const daysOf = ({ from, to }: DayRange): number => (Date.parse(to) - Date.parse(from)) / DAY_MS + 1;

const addDays = (day: string, days: number): string =>
  new Date(Date.parse(day) + days * DAY_MS).toISOString().slice(0, 10);

const addMonths = (month: string, months: number): string => {
  const start = new Date(`${month.slice(0, 7)}-01`);
  start.setUTCMonth(start.getUTCMonth() + months);
  return start.toISOString().slice(0, 10);
};

const FIRST_DAY = "0001-01-01";

/** The days that are counted if the client names none: 30 days, or 12 months. */
const defaultStart = (to: string, interval: Interval): string => {
  const start = interval === "day" ? addDays(to, -29) : addMonths(to, -11);
  return start < FIRST_DAY ? FIRST_DAY : start;
};

/** @throws DomainError request_invalid if the days are too many */
export const rangeOf = (
  given: { readonly from?: string | undefined; readonly to?: string | undefined },
  interval: Interval,
  today: string,
): DayRange => {
  const to = given.to ?? (given.from !== undefined && given.from > today ? given.from : today);
  const range = { from: given.from ?? defaultStart(to, interval), to };
  if (daysOf(range) > MAXIMUM_DAYS[interval]) {
    throw invalidRequest(
      `from: with the interval ${interval}, at most ${MAXIMUM_DAYS[interval]} days can be counted in one request`,
    );
  }
  return range;
};
