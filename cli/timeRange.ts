import { z } from "zod";
import { monthlyCycle } from "../modules/billing/usage.rules.ts";
import type { Period, Span } from "../modules/billing/usage.rules.ts";
import { invalidRequest } from "../runtime/errors.rules.ts";
import { secondOf } from "../runtime/durations.rules.ts";
import { parserOf, parseTimestamp, timestamp } from "./arguments.ts";

/** A range of time that a command line selects; without its end, it is not over. */
export type TimeRange = { readonly since?: Date; readonly until?: Date };

export const SINCE = [
  "--since <time>",
  "start: a date in UTC, or a time with its zone",
  parseTimestamp,
] as const;

export const UNTIL = ["--until <time>", "end, exclusive", parseTimestamp] as const;

/** @throws DomainError request_invalid if no time is in the range */
export const requireTimeRange = ({ since, until }: TimeRange): void => {
  if (since !== undefined && until !== undefined && since >= until) {
    throw invalidRequest(
      `--since must be before --until; got ${since.toISOString()} and ${until.toISOString()}.`,
    );
  }
};

/** The current billing cycle of the account and the kind. Not null, because commander turns that into an empty string. */
export const CURRENT = "current";

const month = z
  .string()
  .regex(/^[1-9]\d{3}-(?:0[1-9]|1[0-2])$/u)
  .transform((given): Period => monthlyCycle(1, new Date(`${given}-01T00:00:00Z`)));

/** Two times with a slash between them, as ISO 8601 writes an interval. */
const interval = z
  .string()
  .transform((given) => given.split("/"))
  .pipe(z.tuple([timestamp, timestamp]))
  .transform(([start, end]): Period => ({ start, end }))
  .refine(({ start, end }) => start < end);

const PERIODS = "a month in UTC (2026-05), two dates (2026-05-15/2026-06-15)";

export const parsePeriodOrCurrent = parserOf(
  z.union([z.literal(CURRENT), month, interval]),
  `${PERIODS} or current`,
);

export const PERIOD = [
  "--period <period>",
  "YYYY-MM (a month, UTC) or FROM/TO",
  parserOf(z.union([month, interval]), PERIODS),
] as const;

export const spanOf = (period: Period | undefined): Span | null =>
  period === undefined ? null : { start: secondOf(period.start), end: secondOf(period.end) };
