import { Option } from "commander";
import type { Command } from "commander";
import { z } from "zod";
import { LONG_TEXT_LENGTH } from "../../../domain/fields.ts";
import { CHARITY_PROVIDERS } from "../../../domain/accounts/accounts.ts";
import { centsToDollars } from "../../../domain/money.ts";
import { balanceNote, normalizeDomain } from "../../../domain/stores/stores.ts";
import {
  nonBlank,
  orNone,
  parseCharityProvider,
  parseCount,
  parseId,
  parseLimit,
  parseReason,
  parserOf,
  parseSwitch,
} from "../../arguments.ts";
import type { CliContext } from "../../context.ts";
import { operatorOption, withAudit } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { addLimitOptions } from "../../limitOptions.ts";
import type { JsonOption } from "../../output/print.ts";
import type { AdjustOptions } from "./adjustStore.ts";
import { adjustStore } from "./adjustStore.ts";
import type { CreateOptions } from "./createStore.ts";
import { createStore } from "./createStore.ts";
import { parseAdjustment, parseDollars, parseTopUpAmount } from "./parseDollars.ts";
import { addPrivacyCommands } from "./privacy/privacyCommands.ts";
import { listStores } from "./listStores.ts";
import type { LedgerOptions } from "./listLedger.ts";
import { listLedger } from "./listLedger.ts";
import { reinstallStore } from "./reinstallStore.ts";
import { showStore } from "./showStore.ts";
import { showBalance } from "./showBalance.ts";
import type { TopUpOptions } from "./topUpStore.ts";
import { topUpStore } from "./topUpStore.ts";
import { uninstallStore } from "./uninstallStore.ts";
import type { UpdateOptions } from "./updateStore.ts";
import { updateStore } from "./updateStore.ts";

const DEFAULT_TREE_CENTS = 50;
const DEFAULT_BOTTLE_CENTS = 10;
const DEFAULT_ENTRIES = 50;

const parseUserId = parserOf(
  nonBlank(200).refine((given) => given === given.trim()),
  "1 to 200 characters without leading or trailing spaces",
);

const parseDomain = parserOf(
  z.string().transform(normalizeDomain).pipe(z.string()),
  "a domain, such as demo.myshopify.com",
);

/** Not empty: if a script's variable is unset, all entries would share one reference and only the first would count. */
const parseReference = parserOf(
  z
    .string()
    .transform((given) => given.trim())
    .pipe(nonBlank(200)),
  "1 to 200 characters",
);

const parseNote = parserOf(balanceNote(), `at most ${LONG_TEXT_LENGTH} characters`);

/** An option in dollars whose default the help shows in dollars, not in cents. */
const dollars = (flags: string, description: string, defaultCents: number): Option =>
  new Option(flags, description)
    .argParser(parseDollars)
    .default(defaultCents, centsToDollars(defaultCents).toFixed(2));

const STORE = "domain or id of the store";
const TREE_PRICE = "price of a tree";
const BOTTLE_PRICE = "price of a bottle";
const LOW_BALANCE = "low-balance threshold";
const USER_ID = "value of the user_id header that names the store";

const addSettingCommands = (store: Command, context: CliContext): void => {
  withAudit(
    store
      .command("create")
      .description("Create a store and print its two API keys, once")
      .requiredOption("--domain <domain>", "domain of the shop", parseDomain)
      .option("--org <id>", "organization that owns the store", parseId)
      .option("--user-id <text>", `${USER_ID}; by default the store's id`, parseUserId)
      .addOption(dollars("--tree-price <dollars>", TREE_PRICE, DEFAULT_TREE_CENTS))
      .addOption(dollars("--bottle-price <dollars>", BOTTLE_PRICE, DEFAULT_BOTTLE_CENTS))
      .addOption(dollars("--low-balance <dollars>", LOW_BALANCE, 0)),
  ).action((options: CreateOptions) => createStore(context, options));
  store
    .command("list")
    .description("List all stores")
    .action((options: JsonOption) => listStores(context, options));
  store
    .command("show")
    .description("Show a store's settings, limits and the prefixes of its keys")
    .argument("<store>", STORE)
    .action((named: string, options: JsonOption) => showStore(context, named, options));
  const update = store
    .command("update")
    .description("Change a store's settings and limits; new prices apply to later writes")
    .argument("<store>", STORE)
    .option("--org <id|none>", "organization that owns the store", orNone(parseId))
    .option("--user-id <text>", USER_ID, parseUserId)
    .option("--tree-price <dollars>", TREE_PRICE, parseDollars)
    .option("--bottle-price <dollars>", BOTTLE_PRICE, parseDollars)
    .option("--low-balance <dollars>", LOW_BALANCE, parseDollars)
    .option("--tree-planting <on|off>", "whether the store may plant trees", parseSwitch)
    .option("--plastic-removal <on|off>", "whether the store may rescue bottles", parseSwitch)
    .option("--donations <on|off>", "whether the store may donate", parseSwitch)
    .option(
      "--charity-provider <name>",
      `charity provider: ${CHARITY_PROVIDERS.join(", ")}`,
      parseCharityProvider,
    );
  withAudit(addLimitOptions(update)).action((named: string, options: UpdateOptions) =>
    updateStore(context, named, options),
  );
  withAudit(
    store
      .command("uninstall")
      .description("Uninstall a store: its keys are rejected, its records remain")
      .argument("<store>", STORE),
  ).action((named: string, options: ChangeOptions) => uninstallStore(context, named, options));
  withAudit(
    store
      .command("reinstall")
      .description("Reinstall an uninstalled store with its keys and its balance")
      .argument("<store>", STORE),
  ).action((named: string, options: ChangeOptions) => reinstallStore(context, named, options));
};

const addBalanceCommands = (store: Command, context: CliContext): void => {
  withAudit(
    store
      .command("topup")
      .description("Add a payment to a store's balance")
      .argument("<store>", STORE)
      .requiredOption("--amount <dollars>", "amount of the payment", parseTopUpAmount)
      .option(
        "--reference <text>",
        "your reference for the payment, which the store sees; a payment with a known reference is not added again (default: the UTC date and the amount)",
        parseReference,
      )
      .option("--note <text>", "note to store with the ledger entry", parseNote),
  ).action((named: string, options: TopUpOptions) => topUpStore(context, named, options));
  store
    .command("adjust")
    .description("Correct a store's balance, for example after a mistaken top-up")
    .argument("<store>", STORE)
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
    .action((named: string, options: AdjustOptions) => adjustStore(context, named, options));
  store
    .command("balance")
    .description("Show a store's balance")
    .argument("<store>", STORE)
    .action((named: string, options: JsonOption) => showBalance(context, named, options));
  store
    .command("ledger")
    .description("List a store's ledger entries, newest first")
    .argument("<store>", STORE)
    .option("--limit <n>", "maximum rows", parseLimit, DEFAULT_ENTRIES)
    .option("--before <entry>", "list entries older than this one", parseCount)
    .action((named: string, options: LedgerOptions) => listLedger(context, named, options));
};

export const addStoreCommands = (store: Command, context: CliContext): void => {
  addSettingCommands(store, context);
  addBalanceCommands(store, context);
  addPrivacyCommands(store, context);
};
