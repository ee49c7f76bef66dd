import { InvalidArgumentError } from "@commander-js/extra-typings";
import { z } from "zod";
import { LONG_TEXT_LENGTH } from "../../modules/records/fields.rules.ts";
import { MAXIMUM_CENTS, dollarsToCents, formatCents } from "../../modules/records/money.rules.ts";
import { changeBalance } from "../../modules/stores/changeBalance.ts";
import type { OperatorEntry } from "../../modules/stores/changeBalance.ts";
import { balanceNote } from "../../modules/stores/stores.rules.ts";
import { STORE, findNamedStore } from "../accountOptions.ts";
import { parseReason, parserOf, trimmed } from "../arguments.ts";
import { OPERATOR, addChange } from "../command.ts";
import type { ChangeOptions, Cli, Define } from "../command.ts";

const DOLLARS_MUST_BE = "US dollars with at most two decimals, below a billion, such as 25 or 0.50";

const cents = z
  .string()
  .regex(/^-?\d{1,9}(?:\.\d{1,2})?$/u)
  .transform((given) => dollarsToCents(Number(given)) ?? Number.NaN)
  .pipe(z.int().min(-MAXIMUM_CENTS).max(MAXIMUM_CENTS));

/** Parses a dollar amount of at least 0 and returns cents. */
export const parseDollars = parserOf(cents.pipe(z.int().min(0)), DOLLARS_MUST_BE);

const parsePositiveDollars = parserOf(cents.pipe(z.int().min(1)), `${DOLLARS_MUST_BE}; above 0`);

const parseTopUpAmount = (given: string): number => {
  if (given.startsWith("-")) {
    throw new InvalidArgumentError(
      "A top-up must be positive. To subtract from a balance, use impact store adjust.",
    );
  }
  return parsePositiveDollars(given);
};

/** Not empty: if a script's variable is unset, all entries would share one reference and only the first would count. */
const parseReference = trimmed(200);

const parseNote = parserOf(balanceNote(), `at most ${LONG_TEXT_LENGTH} characters`);

const parseAdjustment = parserOf(
  cents.refine((amount) => amount !== 0),
  `${DOLLARS_MUST_BE}; negative to subtract, but not 0`,
);

type EntryOptions = ChangeOptions & {
  readonly amount: number;
  readonly reference?: string;
  readonly note?: string;
};

/** What is printed of an entry that was made, and of one that was made before. */
const RESULTS = {
  topup: { made: "Topped up", known: "Nothing added: the top-up" },
  adjustment: { made: "Adjusted the balance of", known: "Nothing changed: the adjustment" },
} as const satisfies Record<OperatorEntry["kind"], object>;

/** Adds an entry to a store's ledger, and prints what happened. Returns whether its reference was known. */
const addEntry = async (
  cli: Cli,
  named: string,
  kind: OperatorEntry["kind"],
  { amount, reference: given, note = "", ...operator }: EntryOptions,
): Promise<boolean> => {
  const deps = await cli.openChange(operator);
  const { id, domain } = await findNamedStore(deps.db, named);
  const entry = { kind, storeId: id, amountCents: amount, reference: given ?? null, note };
  const { balanceCents, reference, replayed } = await changeBalance(deps, entry);
  cli.printResult({ id, domain, balance_cents: balanceCents, reference, replayed }, () => {
    const { made, known } = RESULTS[kind];
    const suffix = reference === null ? "" : ` (reference ${reference})`;
    const result = replayed
      ? `${known} ${reference} of ${domain} is already recorded`
      : `${made} ${domain} by ${formatCents(amount)}${suffix}`;
    cli.say(`${result}; balance ${formatCents(balanceCents)}`);
  });
  return replayed;
};

export const addBalanceCommands: Define = (store, cli) => {
  addChange(store, "topup", "Add a payment to a store's balance")
    .argument(...STORE)
    .requiredOption("--amount <dollars>", "amount of the payment", parseTopUpAmount)
    .option(
      "--reference <text>",
      "your reference for the payment, which the store sees; a payment with a known reference is not added again (default: the UTC date and the amount)",
      parseReference,
    )
    .option("--note <text>", "note to store with the ledger entry", parseNote)
    .action(async (named, options) => {
      const replayed = await addEntry(cli, named, "topup", options);
      if (replayed && options.reference === undefined) {
        cli.say("To add another payment of this amount today, pass --reference.");
      }
    });

  store
    .command("adjust")
    .description("Correct a store's balance, for example after a mistaken top-up")
    .argument(...STORE)
    .requiredOption(
      "--amount <dollars>",
      "amount to add; negative to subtract, such as -5.00",
      parseAdjustment,
    )
    .option(
      "--reference <text>",
      "your reference for the adjustment, which the store sees; one with a known reference is not made again",
      parseReference,
    )
    .requiredOption("--reason <text>", "reason to store with the ledger entry", parseReason)
    .option(...OPERATOR)
    .action(async (named, options) => {
      await addEntry(cli, named, "adjustment", { ...options, note: options.reason });
    });
};
