import type { Command } from "commander";
import { z } from "zod";
import { listBalanceEntries } from "../../../db/stores/balances.ts";
import { text } from "../../../domain/fields.ts";
import { formatCents } from "../../../domain/money.ts";
import { isBalanceLow } from "../../../domain/stores/stores.ts";
import { topUpStore } from "../../../services/stores/topUpStore.ts";
import { parseCount, parseLimit, parserOf } from "../../arguments.ts";
import type { Context } from "../../context.ts";
import { say } from "../../io.ts";
import { printJson, printRecord, printTable } from "../../output/print.ts";
import { findNamedStore } from "./findNamedStore.ts";
import { parseSignedDollars } from "./parseDollars.ts";
import { ENTRY_HEADINGS, entryRow, presentEntry } from "./presentStore.ts";

const DEFAULT_LIMIT = 50;

/** Not empty: a script whose variable is unset would give all payments one name, of which only the first is added. */
const parseReference = parserOf(
  z
    .string()
    .transform((given) => given.trim())
    .pipe(text(200).refine((reference) => reference !== "")),
  "1 to 200 characters",
);

const parseNote = parserOf(text(1000), "at most 1000 characters");

type TopUpOptions = {
  readonly amount: number;
  readonly reference?: string;
  readonly note?: string;
  readonly json?: true;
};

const topUp = async (
  { io, connections, clock }: Context,
  named: string,
  { amount, reference, note = "", json }: TopUpOptions,
): Promise<void> => {
  const db = await connections.database();
  const store = await findNamedStore(db, named);
  const { balanceCents, replayed } = await topUpStore(
    { db, clock },
    { storeId: store.id, amountCents: amount, reference: reference ?? null, note },
  );
  if (json) {
    printJson(io, { id: store.id, domain: store.domain, balance_cents: balanceCents, replayed });
  } else {
    printRecord(io, { store: store.domain, balance: formatCents(balanceCents) });
  }
  if (replayed) {
    say(io, "A top-up with this reference was made before; nothing was added.");
  }
};

const balance = async (
  { io, connections }: Context,
  named: string,
  { json }: { readonly json?: true },
): Promise<void> => {
  const store = await findNamedStore(await connections.database(), named);
  const isLow = isBalanceLow(store);
  if (json) {
    printJson(io, {
      id: store.id,
      domain: store.domain,
      balance_cents: store.balanceCents,
      low_balance_cents: store.lowBalanceCents,
      low_balance: isLow,
    });
  } else {
    printRecord(io, {
      store: store.domain,
      balance: formatCents(store.balanceCents),
      "low below": formatCents(store.lowBalanceCents),
      "is low": isLow,
    });
  }
};

type LedgerOptions = {
  readonly limit: number;
  readonly before?: number;
  readonly json?: true;
};

const ledger = async (
  { io, connections }: Context,
  named: string,
  { limit, before, json }: LedgerOptions,
): Promise<void> => {
  const db = await connections.database();
  const store = await findNamedStore(db, named);
  const entries = await listBalanceEntries(db, store.id, {
    before: before === undefined ? null : String(before),
    limit,
  });
  if (json) {
    printJson(io, entries.map(presentEntry));
    return;
  }
  printTable(io, ENTRY_HEADINGS, entries.map(entryRow));
  const last = entries.at(-1);
  if (last && entries.length === limit) {
    say(io, `Older entries: --before ${last.id}`);
  }
};

/** Commands about a store's prepaid balance. */
export const addBookCommands = (store: Command, context: Context): void => {
  store
    .command("topup")
    .description("add to a store's balance")
    .argument("<store>", "its id or domain")
    .requiredOption(
      "--amount <dollars>",
      "how much; below 0 to take a mistake back",
      parseSignedDollars,
    )
    .option(
      "--reference <text>",
      "your name for the payment: the same one twice is one top-up",
      parseReference,
    )
    .option("--note <text>", "kept with the entry", parseNote)
    .option("--json", "print JSON")
    .action((named: string, options: TopUpOptions) => topUp(context, named, options));
  store
    .command("balance")
    .description("tell a store's balance")
    .argument("<store>", "its id or domain")
    .option("--json", "print JSON")
    .action((named: string, options: { readonly json?: true }) => balance(context, named, options));
  store
    .command("ledger")
    .description("list what changed a store's balance, newest first")
    .argument("<store>", "its id or domain")
    .option("--limit <number>", "how many entries", parseLimit, DEFAULT_LIMIT)
    .option("--before <entry>", "only entries before this one", parseCount)
    .option("--json", "print JSON")
    .action((named: string, options: LedgerOptions) => ledger(context, named, options));
};
