import type { Command, OptionValues } from "@commander-js/extra-typings";
import { MODES } from "../modules/records/owner.rules.ts";
import type { Mode } from "../modules/records/owner.rules.ts";
import type { NewLimit } from "../modules/accounts/limits.rules.ts";
import { nullIfNone, orNone, parseMode, parserOf, wholeNumber } from "./arguments.ts";
import type { OrNone } from "./arguments.ts";

type LimitOptions = { readonly mode: Mode; readonly countPerDay?: OrNone<number> };

const parseLimit = orNone(
  parserOf(
    wholeNumber(1, Number.MAX_SAFE_INTEGER),
    `a number from 1 to ${Number.MAX_SAFE_INTEGER}, or none`,
  ),
);

/** Adds the options that set an account's limit to an `update` command. */
export const addLimitOptions = <
  Args extends unknown[],
  Options extends OptionValues,
  Global extends OptionValues,
>(
  command: Command<Args, Options, Global>,
) =>
  command
    .option("--mode <live|test>", "mode that the limit applies to", parseMode, "live")
    .option("--count-per-day <n|none>", "trees and bottles of one day, UTC", parseLimit);

/** Returns the limit that the options set and its mode, or null; `none` becomes null. */
export const newLimitOf = ({ mode, countPerDay }: LimitOptions): NewLimit | null => {
  const given = nullIfNone(countPerDay);
  return given === undefined ? null : { mode, countPerDay: given };
};

/** An account's limits as programs read them; null is none. */
export const presentLimits = (limits: readonly NewLimit[]) =>
  MODES.map((mode) => ({
    mode,
    count_per_day: limits.find((each) => each.mode === mode)?.countPerDay ?? null,
  }));
