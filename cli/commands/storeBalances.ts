import { InvalidArgumentError } from "commander";
import type { Command } from "commander";
import { z } from "zod";
import { listBalanceEntries } from "../../modules/stores/balances.sql.ts";
import type { BalanceEntry } from "../../modules/stores/balances.sql.ts";
import { LONG_TEXT_LENGTH } from "../../modules/records/fields.rules.ts";
import { MAXIMUM_CENTS, dollarsToCents, formatCents } from "../../modules/records/money.rules.ts";
import { balanceNote, isBalanceLow } from "../../modules/stores/stores.rules.ts";
import { changeBalance } from "../../modules/stores/changeBalance.ts";
import { STORE, findNamedStore } from "../accountOptions.ts";
import { nonBlank, parseCount, parseLimit, parseReason, parserOf } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { say } from "../io.ts";
import { openChange, operatorOption, withAudit } from "../operator.ts";
import type { ChangeOptions, ReasonedOptions } from "../operator.ts";
import { printJson, printList, printRecord, printText, sayIfOlder } from "../output/print.ts";
import type { JsonOption } from "../output/print.ts";

const DOLLARS_MUST_BE = "US dollars with at most two decimals, below a billion, such as 25 or 0.50";

const cents = z
  .string()
  .regex(/^-?\d{1,9}(?:\.\d{1,2})?$/u)
  .transform((given) => dollarsToCents(Number(given)) ?? Number.NaN)
  .pipe(z.int().min(-MAXIMUM_CENTS).max(MAXIMUM_CENTS));

/** Parses a dollar amount of at least 0 and returns cents. */
export const parseDollars = parserOf(cents.pipe(z.int().min(0)), DOLLARS_MUST_BE);

const parsePositiveDollars = parserOf(cents.pipe(z.int().min(1)), `${DOLLARS_MUST_BE}; above 0`);

/** Parses the amount of a top-up and returns cents. */
const parseTopUpAmount = (given: string): number => {
  if (given.startsWith("-")) {
    throw new InvalidArgumentError(
      "A top-up must be positive. To subtract from a balance, use impact store adjust.",
    );
  }
  return parsePositiveDollars(given);
};

type TopUpOptions = ChangeOptions & {
  readonly amount: number;
  readonly reference?: string;
  readonly note?: string;
};

/** Not empty: if a script's variable is unset, all entries would share one reference and only the first would count. */
const parseReference = parserOf(
  z
    .string()
    .transform((given) => given.trim())
    .pipe(nonBlank(200)),
  "1 to 200 characters",
);

const parseNote = parserOf(balanceNote(), `at most ${LONG_TEXT_LENGTH} characters`);

const addTopupCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("topup")
      .description("Add a payment to a store's balance")
      .argument(...STORE)
      .requiredOption("--amount <dollars>", "amount of the payment", parseTopUpAmount)
      .option(
        "--reference <text>",
        "your reference for the payment, which the store sees; a payment with a known reference is not added again (default: the UTC date and the amount)",
        parseReference,
      )
      .option("--note <text>", "note to store with the ledger entry", parseNote),
  ).action(
    async (
      idOrDomain: string,
      { amount, reference: given, note = "", json, ...operator }: TopUpOptions,
    ) => {
      const { io } = context;
      const deps = await openChange(context, operator);
      const { id, domain } = await findNamedStore(deps.db, idOrDomain);
      const { balanceCents, reference, replayed } = await changeBalance(deps, {
        kind: "topup",
        storeId: id,
        amountCents: amount,
        reference: given ?? null,
        note,
      });
      if (json) {
        printJson(io, { id, domain, balance_cents: balanceCents, reference, replayed });
      } else {
        const result = replayed
          ? `Nothing added: the top-up ${reference} of ${domain} is already recorded`
          : `Topped up ${domain} by ${formatCents(amount)} (reference ${reference})`;
        printText(io, `${result}; balance ${formatCents(balanceCents)}`);
      }
      if (replayed && given === undefined) {
        say(io, "To add another payment of this amount today, pass --reference.");
      }
    },
  );
};

type AdjustOptions = ReasonedOptions & {
  readonly amount: number;
  readonly reference?: string;
};

/** Parses a positive or negative dollar amount and returns cents. */
const parseAdjustment = parserOf(
  cents.refine((amount) => amount !== 0),
  `${DOLLARS_MUST_BE}; negative to subtract, but not 0`,
);

const addAdjustCommand = (parent: Command, context: CliContext): void => {
  parent
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
    .addOption(operatorOption())
    .action(async (idOrDomain: string, { amount, reference, reason, as, json }: AdjustOptions) => {
      const { io } = context;
      const deps = await openChange(context, { as, reason });
      const { id, domain } = await findNamedStore(deps.db, idOrDomain);
      const { balanceCents, replayed } = await changeBalance(deps, {
        kind: "adjustment",
        storeId: id,
        amountCents: amount,
        reference: reference ?? null,
        note: reason,
      });
      if (json) {
        printJson(io, {
          id,
          domain,
          balance_cents: balanceCents,
          reference: reference ?? null,
          replayed,
        });
        return;
      }
      const named = reference === undefined ? "" : ` (reference ${reference})`;
      const result = replayed
        ? `Nothing changed: the adjustment ${reference} of ${domain} is already recorded`
        : `Adjusted the balance of ${domain} by ${formatCents(amount)}${named}`;
      printText(io, `${result}; balance ${formatCents(balanceCents)}`);
    });
};

const addBalanceCommand = (parent: Command, { io, connections }: CliContext): void => {
  parent
    .command("balance")
    .description("Show a store's balance")
    .argument(...STORE)
    .action(async (idOrDomain: string, { json }: JsonOption) => {
      const store = await findNamedStore(await connections.database(), idOrDomain);
      const isLow = isBalanceLow(store);
      if (json) {
        printJson(io, {
          id: store.id,
          domain: store.domain,
          balance_cents: store.balanceCents,
          low_balance_cents: store.lowBalanceCents,
          low_balance: isLow,
        });
        return;
      }
      printRecord(io, {
        store: store.domain,
        balance: formatCents(store.balanceCents),
        "low-balance threshold": formatCents(store.lowBalanceCents),
        "is low": isLow,
      });
    });
};

type LedgerOptions = {
  readonly limit: number;
  readonly before?: number;
  readonly json?: true;
};

const presentEntry = (entry: BalanceEntry) => ({
  id: entry.id,
  kind: entry.kind,
  amount_cents: entry.amountCents,
  balance_cents: entry.balanceCents,
  quantity: entry.quantity,
  record_id: entry.recordId,
  reference: entry.reference,
  note: entry.note,
  created_at: entry.createdAt,
});

const addLedgerCommand = (parent: Command, { io, connections }: CliContext): void => {
  parent
    .command("ledger")
    .description("List a store's ledger entries, newest first")
    .argument(...STORE)
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .option("--before <entry>", "list entries older than this one", parseCount)
    .action(async (idOrDomain: string, { limit, before, json }: LedgerOptions) => {
      const db = await connections.database();
      const store = await findNamedStore(db, idOrDomain);
      const found = await listBalanceEntries(db, store.id, {
        before: before === undefined ? null : String(before),
        limit: limit + 1,
      });
      printList({ io, json }, found.slice(0, limit), presentEntry, {
        entry: (entry) => entry.id,
        at: (entry) => entry.createdAt,
        kind: (entry) => entry.kind,
        quantity: (entry) => entry.quantity,
        amount: (entry) => formatCents(entry.amountCents),
        balance: (entry) => formatCents(entry.balanceCents),
        reference: (entry) => entry.reference,
        note: (entry) => entry.note,
      });
      sayIfOlder(io, found, limit);
    });
};

export const addBalanceCommands = (store: Command, context: CliContext): void => {
  addTopupCommand(store, context);
  addAdjustCommand(store, context);
  addBalanceCommand(store, context);
  addLedgerCommand(store, context);
};
