import type { Command, OptionValues } from "@commander-js/extra-typings";
import { MODES } from "../modules/records/owner.rules.ts";
import type { Mode } from "../modules/records/owner.rules.ts";
import { LIMITS } from "../modules/accounts/limits.rules.ts";
import type { AccountLimits, LimitName, NewLimits } from "../modules/accounts/limits.rules.ts";
import { nullIfNone, onlyGiven, orNone, parseMode, parserOf, wholeNumber } from "./arguments.ts";
import type { OrNone } from "./arguments.ts";

export type LimitOptions = { readonly mode: Mode } & {
  readonly [Name in LimitName]?: OrNone<number>;
};

const parseLimit = orNone(
  parserOf(
    wholeNumber(1, Number.MAX_SAFE_INTEGER),
    `a number from 1 to ${Number.MAX_SAFE_INTEGER}, or none`,
  ),
);

/** Adds the options that set an account's limits to an `update` command. */
export const addLimitOptions = <
  Args extends unknown[],
  Options extends OptionValues,
  Global extends OptionValues,
>(
  command: Command<Args, Options, Global>,
) =>
  command
    .option("--mode <live|test>", "mode that the limits apply to", parseMode, "live")
    .option("--count-per-request <n|none>", "trees or bottles of one request", parseLimit)
    .option("--count-per-day <n|none>", "trees and bottles of one day, UTC", parseLimit);

/** Returns the limits that the options set and their mode, or null; `none` becomes null. */
export const newLimitsOf = (options: LimitOptions): NewLimits | null => {
  const given = LIMITS.map((name) => [name, nullIfNone(options[name])] as const);
  const changes = onlyGiven(Object.fromEntries(given));
  return Object.keys(changes).length === 0 ? null : { mode: options.mode, changes };
};

type ModeLimits = readonly ({ readonly mode: Mode } & AccountLimits)[];

/** An account's limits as programs read them; null is none. */
export const presentLimits = (limits: ModeLimits) =>
  MODES.map((mode) => {
    const own = limits.find((each) => each.mode === mode);
    return {
      mode,
      count_per_request: own?.countPerRequest ?? null,
      count_per_day: own?.countPerDay ?? null,
    };
  });
