import { Option } from "commander";
import type { Command } from "commander";
import { z } from "zod";
import { listApiKeys } from "../../../db/accounts/apiKeys.ts";
import type { Store } from "../../../db/stores/stores.ts";
import { listStores } from "../../../db/stores/stores.ts";
import { CHARITY_PROVIDERS } from "../../../domain/charities/charities.ts";
import type { CharityProviderName } from "../../../domain/charities/charities.ts";
import { text } from "../../../domain/fields.ts";
import { centsToDollars, formatCents } from "../../../domain/money.ts";
import { normalizeDomain } from "../../../domain/stores/stores.ts";
import { createStore } from "../../../services/stores/createStore.ts";
import { uninstallStore } from "../../../services/stores/uninstallStore.ts";
import { updateStore } from "../../../services/stores/updateStore.ts";
import { NONE, orNone, parseId, parserOf, parseSwitch } from "../../arguments.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { say } from "../../io.ts";
import { printJson, printRecord, printTable } from "../../output/print.ts";
import { KEY_HEADINGS, keyRows, presentKey } from "../../output/presentKey.ts";
import { addBookCommands } from "./bookCommands.ts";
import { findNamedStore } from "./findNamedStore.ts";
import { parseDollars } from "./parseDollars.ts";
import { presentStore, printStore } from "./presentStore.ts";

const DEFAULT_TREE_CENTS = 50;
const DEFAULT_BOTTLE_CENTS = 10;

const parseUserId = parserOf(
  text(200).refine((given) => given.trim() !== "" && given === given.trim()),
  "1 to 200 characters without spaces around them",
);

const parseDomain = parserOf(
  z.string().transform(normalizeDomain).pipe(z.string()),
  "a domain, such as demo.myshopify.com",
);

const parseProvider = parserOf(z.enum(CHARITY_PROVIDERS), `one of ${CHARITY_PROVIDERS.join(", ")}`);

type JsonOption = { readonly json?: true };

type CreateOptions = JsonOption & {
  readonly domain: string;
  readonly org?: string;
  readonly userId?: string;
  readonly treePrice: number;
  readonly bottlePrice: number;
  readonly lowBalance: number;
};

const create = async (
  { io, connections, clock }: Context,
  options: CreateOptions,
): Promise<void> => {
  const { id, domain, apiKeyProd, apiKeyTest } = await createStore(
    { db: await connections.database(), clock },
    {
      domain: options.domain,
      userId: options.userId ?? null,
      organizationId: options.org ?? null,
      treePriceCents: options.treePrice,
      bottlePriceCents: options.bottlePrice,
      lowBalanceCents: options.lowBalance,
    },
  );
  const created = { id, domain, api_key_prod: apiKeyProd, api_key_test: apiKeyTest };
  if (options.json) {
    printJson(io, created);
  } else {
    printRecord(io, created);
  }
  say(io, "The keys are shown only now: keep them. The balance is 0: see impact store topup.");
};

const list = async ({ io, connections }: Context, { json }: JsonOption): Promise<void> => {
  const stores = await listStores(await connections.database());
  if (json) {
    printJson(io, stores.map(presentStore));
    return;
  }
  printTable(
    io,
    ["store id", "domain", "balance", "tree", "bottle", "created", "uninstalled"],
    stores.map((store) => [
      store.id,
      store.domain,
      formatCents(store.balanceCents),
      formatCents(store.treePriceCents),
      formatCents(store.bottlePriceCents),
      store.createdAt,
      store.uninstalledAt,
    ]),
  );
};

const show = async (context: Context, named: string, { json }: JsonOption): Promise<void> => {
  const db = await context.connections.database();
  const store = await findNamedStore(db, named);
  const keys = await listApiKeys(db, store.id);
  if (json) {
    printJson(context.io, { ...presentStore(store), keys: keys.map(presentKey) });
    return;
  }
  printStore(context, store);
  context.io.stdout.write("\n");
  printTable(context.io, KEY_HEADINGS, keyRows(keys));
};

const printChanged = (context: Context, store: Store, { json }: JsonOption): void => {
  if (json) {
    printJson(context.io, presentStore(store));
  } else {
    printStore(context, store);
  }
};

const change = async (
  context: Context,
  named: string,
  changes: Parameters<typeof updateStore>[2],
  options: JsonOption,
): Promise<void> => {
  if (Object.values(changes).every((value) => value === undefined)) {
    throw new CommandError(EXIT.usage, "Nothing to change: name at least one option.");
  }
  const db = await context.connections.database();
  const { id } = await findNamedStore(db, named);
  printChanged(context, await updateStore({ db }, id, changes), options);
};

type UpdateOptions = JsonOption & {
  readonly org?: string;
  readonly userId?: string;
  readonly lowBalance?: number;
  readonly treePlanting?: boolean;
  readonly plasticRemoval?: boolean;
  readonly donations?: boolean;
  readonly charityProvider?: CharityProviderName;
};

const update = (context: Context, named: string, options: UpdateOptions): Promise<void> =>
  change(
    context,
    named,
    {
      organizationId: options.org === NONE ? null : options.org,
      userId: options.userId,
      lowBalanceCents: options.lowBalance,
      treePlanting: options.treePlanting,
      plasticRemoval: options.plasticRemoval,
      donations: options.donations,
      charityProvider: options.charityProvider,
    },
    options,
  );

const uninstall = async (context: Context, named: string, options: JsonOption): Promise<void> => {
  const db = await context.connections.database();
  const { id } = await findNamedStore(db, named);
  const { store, wasUninstalledBefore } = await uninstallStore({ db, clock: context.clock }, id);
  printChanged(context, store, options);
  if (wasUninstalledBefore) {
    say(context.io, "It was uninstalled before; the first date stays.");
  }
};

const NAMED = "its id or domain";

/** An option whose default the help shows in dollars, as people write it. */
const dollars = (flags: string, description: string, defaultCents: number): Option =>
  new Option(flags, description)
    .argParser(parseDollars)
    .default(defaultCents, centsToDollars(defaultCents).toFixed(2));

/** The stores of the store-platform interface. */
export const addStoreCommands = (program: Command, context: Context): void => {
  const store = program
    .command("store")
    .description("stores of the store-platform interface, their prices and their balances");
  store
    .command("create")
    .description("create a store and print its keys, once")
    .requiredOption("--domain <domain>", "the shop's domain", parseDomain)
    .option("--org <id>", "the organization whose store it is", parseId)
    .option("--user-id <text>", "another name for the store in the user_id header", parseUserId)
    .addOption(dollars("--tree-price <dollars>", "what a tree costs", DEFAULT_TREE_CENTS))
    .addOption(dollars("--bottle-price <dollars>", "what a bottle costs", DEFAULT_BOTTLE_CENTS))
    .addOption(dollars("--low-balance <dollars>", "below it the balance is called low", 0))
    .option("--json", "print JSON")
    .action((options: CreateOptions) => create(context, options));
  store
    .command("list")
    .description("list all stores")
    .option("--json", "print JSON")
    .action((options: JsonOption) => list(context, options));
  store
    .command("show")
    .description("show a store, its settings and its keys by what they start with")
    .argument("<store>", NAMED)
    .option("--json", "print JSON")
    .action((named: string, options: JsonOption) => show(context, named, options));
  store
    .command("update")
    .description("change a store's settings; what is not named stays")
    .argument("<store>", NAMED)
    .option("--org <id>", "the organization whose store it is, or none", orNone(parseId))
    .option("--user-id <text>", "another name for the store in the user_id header", parseUserId)
    .option("--low-balance <dollars>", "below it the balance is called low", parseDollars)
    .option("--tree-planting <switch>", "on or off", parseSwitch)
    .option("--plastic-removal <switch>", "on or off", parseSwitch)
    .option("--donations <switch>", "on or off", parseSwitch)
    .option("--charity-provider <name>", CHARITY_PROVIDERS.join(", "), parseProvider)
    .option("--json", "print JSON")
    .action((named: string, options: UpdateOptions) => update(context, named, options));
  store
    .command("set-price")
    .description("change what a tree or a bottle costs from now on")
    .argument("<store>", NAMED)
    .option("--tree <dollars>", "a tree", parseDollars)
    .option("--bottle <dollars>", "a bottle", parseDollars)
    .option("--json", "print JSON")
    .action((named: string, options: JsonOption & { tree?: number; bottle?: number }) =>
      change(
        context,
        named,
        { treePriceCents: options.tree, bottlePriceCents: options.bottle },
        options,
      ),
    );
  store
    .command("uninstall")
    .description("close a store: its keys open nothing within 5 seconds, its records stay")
    .argument("<store>", NAMED)
    .option("--json", "print JSON")
    .action((named: string, options: JsonOption) => uninstall(context, named, options));
  store
    .command("reinstall")
    .description("open an uninstalled store again, with its keys and its balance")
    .argument("<store>", NAMED)
    .option("--json", "print JSON")
    .action((named: string, options: JsonOption) =>
      change(context, named, { uninstalledAt: null }, options),
    );
  addBookCommands(store, context);
};
