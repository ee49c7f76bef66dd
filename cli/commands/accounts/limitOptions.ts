import type { Command } from "commander";
import { z } from "zod";
import type { Mode } from "../../../domain/accounts/accounts.ts";
import { MODES } from "../../../domain/accounts/accounts.ts";
import type {
  LimitChanges,
  LimitName,
  LimitOverrides,
  NewLimits,
} from "../../../domain/accounts/limits.ts";
import { LIMITS } from "../../../domain/accounts/limits.ts";
import { parseMode, parserOf, wholeNumber } from "../../arguments.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import type { Cell } from "../../output/formatTable.ts";

const DEFAULT = "default";

type Limit = number | typeof DEFAULT;

export type LimitOptions = { readonly mode: Mode } & {
  readonly [Name in LimitName]?: Limit;
};

const parseLimitUpTo = (maximum: number) =>
  parserOf(
    z.union([z.literal(DEFAULT), wholeNumber(1, maximum)]),
    `a number from 1 to ${maximum}, or ${DEFAULT}`,
  );

const parseRequests = parseLimitUpTo(1_000_000);
const parseUnits = parseLimitUpTo(Number.MAX_SAFE_INTEGER);

/** Adds the options that set an account's limits to an `update` command. */
export const addLimitOptions = (command: Command): Command =>
  command
    .option("--mode <live|test>", "mode that the limits apply to", parseMode, "live")
    .option("--requests-per-second <n|default>", "requests a second of one key", parseRequests)
    .option("--concurrent-requests <n|default>", "requests at the same time", parseRequests)
    .option("--open-lists <n|default>", "streamed lists at the same time", parseRequests)
    .option("--count-per-request <n|default>", "trees or bottles of one request", parseUnits)
    .option("--count-per-day <n|default>", "trees and bottles of one day, UTC", parseUnits)
    .option(
      "--test-records <n|default>",
      "records that test keys may store, with --mode test",
      parseUnits,
    );

const limitChangesIn = (options: LimitOptions): LimitChanges =>
  Object.fromEntries(
    LIMITS.map((name) => [name, options[name]] as const)
      .filter(([, given]) => given !== undefined)
      .map(([name, given]) => [name, given === DEFAULT ? null : given]),
  );

/** Returns the limits that the options set and their mode, or null; `default` becomes null. */
export const newLimitsOf = (options: LimitOptions): NewLimits | null => {
  const changes = limitChangesIn(options);
  if (changes.testRecords !== undefined && options.mode === "live") {
    throw new CommandError(EXIT.usage, "--test-records requires --mode test.");
  }
  return Object.keys(changes).length === 0 ? null : { mode: options.mode, changes };
};

type ModeLimits = readonly { readonly mode: Mode; readonly limits: LimitOverrides }[];

const overridesOf = (limits: ModeLimits, mode: Mode): LimitOverrides | null =>
  limits.find((each) => each.mode === mode)?.limits ?? null;

/** An account's limits as programs read them; null is the deployment's default. */
export const presentLimits = (limits: ModeLimits) =>
  MODES.map((mode) => {
    const overrides = overridesOf(limits, mode);
    return {
      mode,
      requests_per_second: overrides?.requestsPerSecond ?? null,
      concurrent_requests: overrides?.concurrentRequests ?? null,
      open_lists: overrides?.openLists ?? null,
      count_per_request: overrides?.countPerRequest ?? null,
      count_per_day: overrides?.countPerDay ?? null,
      // Production keys have no such limit.
      test_records: mode === "live" ? undefined : (overrides?.testRecords ?? null),
    };
  });

export const LIMIT_HEADINGS = [
  "mode",
  "requests/s",
  "concurrent",
  "open lists",
  "count/request",
  "count/day",
  "test records",
];

export const limitRows = (limits: ModeLimits): readonly (readonly Cell[])[] =>
  presentLimits(limits).map((each) =>
    Object.values(each).map((value) => (value === null ? DEFAULT : value)),
  );
