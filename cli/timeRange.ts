import { Option } from "commander";
import { parseTimestamp } from "./arguments.ts";
import { CommandError, EXIT } from "./exitCodes.ts";

/** A range of time that a command line selects; without its end, it is not over. */
export type TimeRange = { readonly since?: Date; readonly until?: Date };

export const sinceOption = (meaning = "start: a date in UTC, or a time with its zone"): Option =>
  new Option("--since <time>", meaning).argParser(parseTimestamp);

export const untilOption = (meaning = "end, exclusive"): Option =>
  new Option("--until <time>", meaning).argParser(parseTimestamp);

/** @throws CommandError if no time is in the range */
export const requireTimeRange = ({ since, until }: TimeRange): void => {
  if (since !== undefined && until !== undefined && since >= until) {
    throw new CommandError(
      EXIT.usage,
      `--since must be before --until; got ${since.toISOString()} and ${until.toISOString()}.`,
    );
  }
};
