import { Option } from "@commander-js/extra-typings";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { z } from "zod";
import { CHARITY_PROVIDERS } from "../modules/accounts/accounts.rules.ts";
import type { NewLimit } from "../modules/accounts/limits.rules.ts";
import { MODES } from "../modules/records/owner.rules.ts";
import { orNone, parseCount, parserOf } from "./arguments.ts";

type Setting = readonly [flags: string, description: string, parse: (given: string) => unknown];

type Settings = Readonly<Record<string, Setting>>;

type GivenSettings<Table extends Settings> = {
  readonly [Field in keyof Table]?: ReturnType<Table[Field][2]>;
};

/** Boxed, because commander turns null into an empty string. */
const boxed = z.object({ value: z.unknown() });

/** Adds options that set fields to a command. Returns a function that returns the fields whose options are given. */
export const addSettings = <Table extends Settings>(
  command: CommandUnknownOpts,
  table: Table,
): (() => GivenSettings<Table>) => {
  const names = Object.entries(table).map(([field, [flags, description, parse]]) => {
    const option = new Option(flags, description).argParser((given) => ({ value: parse(given) }));
    command.addOption(option);
    return [field, option.attributeName()] as const;
  });
  return () => {
    const given = names.flatMap(([field, name]) => {
      const { data } = boxed.safeParse(command.getOptionValue(name));
      return data ? [[field, data.value] as const] : [];
    });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Object.fromEntries has no better type.
    return Object.fromEntries(given) as GivenSettings<Table>;
  };
};

export const oneOf = <const Word extends string>(words: readonly Word[]) =>
  parserOf(z.enum(words), `one of ${words.join(", ")}`);

export const ACCOUNT_SETTINGS = {
  charityProvider: [
    `--charity-provider <${CHARITY_PROVIDERS.join("|")}>`,
    "charity provider",
    oneOf(CHARITY_PROVIDERS),
  ],
  countPerDay: [
    "--count-per-day <n|none>",
    "trees and bottles of one day, UTC, in the mode of --mode",
    orNone(parseCount),
  ],
} as const satisfies Settings;

/** An account's limits as programs read them; null is none. */
export const presentLimits = (limits: readonly NewLimit[]) =>
  MODES.map((mode) => ({
    mode,
    count_per_day: limits.find((each) => each.mode === mode)?.countPerDay ?? null,
  }));
