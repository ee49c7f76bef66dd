import type { Command } from "@commander-js/extra-typings";
import { z } from "zod";
import { listAccountLimits } from "../../modules/accounts/accountLimits.sql.ts";
import { listApiKeys } from "../../modules/accounts/apiKeys.sql.ts";
import { listStores } from "../../modules/stores/stores.sql.ts";
import type { Store } from "../../modules/stores/stores.sql.ts";
import {
  DEFAULT_PRICES,
  isBalanceLow,
  normalizeDomain,
} from "../../modules/stores/stores.rules.ts";
import { createStore, updateStore } from "../../modules/stores/manageStores.ts";
import { STORE, findNamedStore } from "../accountOptions.ts";
import { awaitCachedKeys, presentKey } from "../apiKeys.ts";
import { nonBlank, orNone, parseId, parseMode, parserOf, parseSwitch } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openChange, withAudit } from "../operator.ts";
import { only, printDetails, printList, snakeCased } from "../output/print.ts";
import { ACCOUNT_SETTINGS, addSettings, presentLimits } from "../settings.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { addBalanceCommands, parseDollars } from "./storeBalances.ts";
import { addPrivacyCommands } from "./storeCustomers.ts";

const presentStore = ({
  isDepleted: _isDepleted,
  lastRecordUs: _lastRecordUs,
  ...store
}: Store) => ({
  ...snakeCased(store),
  is_balance_low: isBalanceLow(store),
});

const parseUserId = parserOf(
  nonBlank(200).refine((given) => given === given.trim()),
  "1 to 200 characters without leading or trailing spaces",
);

const CREATE_SETTINGS = {
  organizationId: ["--org <id|none>", "organization that owns the store", orNone(parseId)],
  userId: ["--user-id <text>", "value of the user_id header that names the store", parseUserId],
  treePriceCents: ["--tree-price <dollars>", "price of a tree", parseDollars],
  bottlePriceCents: ["--bottle-price <dollars>", "price of a bottle", parseDollars],
  lowBalanceCents: ["--low-balance <dollars>", "low-balance threshold", parseDollars],
} as const;

const UPDATE_SETTINGS = {
  treePlanting: ["--tree-planting <on|off>", "whether the store may plant trees", parseSwitch],
  plasticRemoval: [
    "--plastic-removal <on|off>",
    "whether the store may rescue bottles",
    parseSwitch,
  ],
  donations: ["--donations <on|off>", "whether the store may donate", parseSwitch],
  isInstalled: [
    "--installed <on|off>",
    "whether the store's keys are accepted; its records and its balance remain",
    parseSwitch,
  ],
  ...ACCOUNT_SETTINGS,
  ...CREATE_SETTINGS,
} as const;

const parseDomain = parserOf(
  z.string().transform(normalizeDomain).pipe(z.string()),
  "a domain, such as demo.myshopify.com",
);

const CREATE_HELP = `
Without prices, a tree costs ${formatCents(DEFAULT_PRICES.treePriceCents)} and a bottle ${formatCents(DEFAULT_PRICES.bottlePriceCents)}.`;

const addCreateCommand = (parent: Command, context: CliContext): void => {
  const create = withAudit(
    parent
      .command("create")
      .description("Create a store and print its two API keys, once")
      .requiredOption("--domain <domain>", "domain of the shop", parseDomain)
      .addHelpText("after", CREATE_HELP),
  );
  const readSettings = addSettings(create, CREATE_SETTINGS);
  create.action(async (options) => {
    const { io } = context;
    const { id, domain, apiKeyProd, apiKeyTest } = await createStore(
      await openChange(context, options),
      { ...readSettings(), domain: options.domain },
    );
    const created = { id, domain, api_key_prod: apiKeyProd, api_key_test: apiKeyTest };
    printDetails(io, created);
    say(io, "Save these keys now; they cannot be shown again.");
    say(io, "The balance is $0.00. To add to it, use impact store topup.");
  });
};

const listAll = async ({ io, connections }: CliContext): Promise<void> => {
  const stores = await listStores(await connections.database());
  const rows = stores.map(presentStore);
  printList(
    io,
    rows,
    only(rows, ["id", "domain", "balance_cents", "created_at", "uninstalled_at"]),
  );
};

const showOne = async ({ io, connections }: CliContext, idOrDomain: string): Promise<void> => {
  const db = await connections.database();
  const store = await findNamedStore(db, idOrDomain);
  const keys = await listApiKeys(db, store.id);
  const limits = await listAccountLimits(db, store.id);
  printDetails(io, {
    ...presentStore(store),
    limits: presentLimits(limits),
    keys: keys.map(presentKey),
  });
};

const addUpdateCommand = (parent: Command, context: CliContext): void => {
  const update = withAudit(
    parent
      .command("update")
      .description("Change a store's settings and limits; new prices apply to later writes")
      .argument(...STORE)
      .option("--mode <live|test>", "mode of --count-per-day", parseMode, "live"),
  );
  const readSettings = addSettings(update, UPDATE_SETTINGS);
  update.action(async (idOrDomain, options) => {
    const { io } = context;
    const { countPerDay, ...changes } = readSettings();
    if (Object.keys(readSettings()).length === 0) {
      throw new CommandError(EXIT.usage, "Nothing to change. Pass at least one option.");
    }
    const limit = countPerDay === undefined ? undefined : { mode: options.mode, countPerDay };
    const deps = await openChange(context, options);
    const { id } = await findNamedStore(deps.db, idOrDomain);
    printDetails(io, presentStore(await updateStore(deps, id, { ...changes, limit })));
    await awaitCachedKeys(io);
    if (changes.isInstalled === false) {
      say(io, "Every API process rejects the store's keys.");
    }
    if (changes.charityProvider !== undefined) {
      const { warnAboutCharityProvider } = await import("../charitySettings.ts");
      warnAboutCharityProvider(context, changes.charityProvider);
    }
  });
};

export const addStoreCommands = (store: Command, context: CliContext): void => {
  addCreateCommand(store, context);
  store
    .command("list")
    .alias("show")
    .description("List all stores, or show one with its limits and the prefixes of its keys")
    .argument("[store]", STORE[1], STORE[2])
    .action((named) => (named === undefined ? listAll(context) : showOne(context, named)));
  addUpdateCommand(store, context);
  addBalanceCommands(store, context);
  addPrivacyCommands(store, context);
};
