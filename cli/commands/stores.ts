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
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { addChange } from "../command.ts";
import type { Define } from "../command.ts";
import { only, snakeCased } from "../output/print.ts";
import { ACCOUNT_SETTINGS, addSettings, presentLimits } from "../settings.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { addBalanceCommands, parseDollars } from "./storeBalances.ts";
import { addPrivacyCommands } from "./storeCustomers.ts";

const presentStore = ({ isDepleted: _depleted, lastRecordUs: _lastUs, ...store }: Store) => ({
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

const addCreateCommand: Define = (store, cli) => {
  const create = addChange(store, "create", "Create a store and print its two API keys, once")
    .requiredOption("--domain <domain>", "domain of the shop", parseDomain)
    .addHelpText("after", CREATE_HELP);
  const readSettings = addSettings(create, CREATE_SETTINGS);
  create.action(async (options) => {
    const { id, domain, apiKeyProd, apiKeyTest } = await createStore(
      await cli.openChange(options),
      { ...readSettings(), domain: options.domain },
    );
    cli.printDetails({ id, domain, api_key_prod: apiKeyProd, api_key_test: apiKeyTest });
    cli.say("Save these keys now; they cannot be shown again.");
    cli.say("The balance is $0.00. To add to it, use impact store topup.");
  });
};

const addListCommand: Define = (store, cli) => {
  store
    .command("list")
    .alias("show")
    .description("List all stores, or show one with its limits and the prefixes of its keys")
    .argument("[store]", STORE[1], STORE[2])
    .action(async (named) => {
      const db = await cli.connections.database();
      if (named === undefined) {
        const rows = (await listStores(db)).map(presentStore);
        const columns = ["id", "domain", "balance_cents", "created_at", "uninstalled_at"];
        cli.printList(rows, only(rows, columns));
        return;
      }
      const found = await findNamedStore(db, named);
      const keys = await listApiKeys(db, found.id);
      cli.printDetails({
        ...presentStore(found),
        limits: presentLimits(await listAccountLimits(db, found.id)),
        keys: keys.map(presentKey),
      });
    });
};

const addUpdateCommand: Define = (store, cli) => {
  const update = addChange(
    store,
    "update",
    "Change a store's settings and limits; new prices apply to later writes",
  )
    .argument(...STORE)
    .option("--mode <live|test>", "mode of --count-per-day", parseMode, "live");
  const readSettings = addSettings(update, UPDATE_SETTINGS);
  update.action(async (named, options) => {
    const { countPerDay, ...changes } = readSettings();
    if (Object.keys(readSettings()).length === 0) {
      throw invalidRequest("Nothing to change. Pass at least one option.");
    }
    const limit = countPerDay === undefined ? undefined : { mode: options.mode, countPerDay };
    const deps = await cli.openChange(options);
    const { id } = await findNamedStore(deps.db, named);
    cli.printDetails(presentStore(await updateStore(deps, id, { ...changes, limit })));
    await awaitCachedKeys(cli);
    if (changes.isInstalled === false) {
      cli.say("Every API process rejects the store's keys.");
    }
    if (changes.charityProvider !== undefined) {
      const { warnAboutCharityProvider } = await import("../charitySettings.ts");
      warnAboutCharityProvider(cli, changes.charityProvider);
    }
  });
};

export const addStoreCommands: Define = (store, cli) => {
  addCreateCommand(store, cli);
  addListCommand(store, cli);
  addUpdateCommand(store, cli);
  addBalanceCommands(store, cli);
  addPrivacyCommands(store, cli);
};
