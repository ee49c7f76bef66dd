import { dirname, join, relative } from "node:path";

/*
 * The architecture that the linter enforces: which layer imports which, which capability imports
 * which, and which layer uses which package. docs/architecture.md explains it.
 */

/** `all`: any import. `types`: type imports. `reads`: types, and functions named as reads. */
type Access = "all" | "types" | "reads";

/** What each layer may import besides itself. Layers that are not listed may import everything. */
const LAYERS: Readonly<Record<string, Readonly<Record<string, Access>>>> = {
  config: { domain: "all" },
  domain: {},
  db: { domain: "all" },
  providers: { domain: "all", db: "all" },
  services: { domain: "all", db: "all", providers: "all" },
  activities: { domain: "all", services: "all", db: "types", providers: "types" },
  workflows: { domain: "all", activities: "types" },
  program: { config: "all", db: "all", domain: "all", providers: "types", workflows: "all" },
  worker: {
    activities: "all",
    config: "all",
    db: "all",
    domain: "all",
    program: "all",
    providers: "all",
    services: "all",
    workflows: "all",
  },
  api: {
    config: "all",
    db: "reads",
    domain: "all",
    program: "all",
    providers: "types",
    services: "all",
    workflows: "all",
  },
  cli: {
    config: "all",
    db: "reads",
    domain: "all",
    program: "all",
    providers: "types",
    services: "all",
    workflows: "all",
  },
  embedded: { config: "all", db: "all", domain: "all", program: "all", services: "all" },
};

/** Names of functions that only read. */
const READ = /^(?:count|find|has|list|read|sum)/u;

/** What each capability may import besides itself and `accounts`. */
const CAPABILITIES: Readonly<Record<string, readonly string[]>> = {
  accounts: [],
  events: [],
  webhooks: ["events"],
  billing: ["events"],
  planting: ["events"],
  registrations: ["billing", "events", "planting"],
  charities: ["billing", "events", "registrations"],
  stores: ["charities", "events", "planting", "registrations"],
  dashboard: ["charities", "planting", "registrations"],
  /** Moving in from another system, with all kinds of records. */
  history: ["billing", "charities", "dashboard", "planting", "registrations", "stores"],
  /** What support staff do across capabilities: find any record, refund any registration. */
  support: ["billing", "charities", "planting", "registrations", "stores"],
  /** The deletion of what is old enough, in all capabilities. */
  retention: ["billing", "charities", "events", "planting", "registrations", "stores", "webhooks"],
};

/** Layers whose files outside of the capabilities are shared. They may import only `accounts`, and the terms of domain/. */
const SHARING = new Set(["domain", "db", "services"]);

/** Files that may import more than their folder, with the reason. A path that ends in `/` is a folder. */
const EXCEPTIONS: readonly {
  readonly file: string;
  readonly imports: readonly string[];
  readonly reason: string;
}[] = [
  {
    file: "api/context.ts",
    imports: ["db/", "providers/"],
    reason: "the API's composition root",
  },
  {
    file: "api/middleware/shareConnections.ts",
    imports: ["db/pools/connectionShares.ts"],
    reason: "names the account that a request's connections are for",
  },
  {
    file: "program/outgoing.ts",
    imports: ["providers/resolveAddresses.ts"],
    reason: "all connections of a process look up addresses alike",
  },
  {
    file: "cli/connections.ts",
    imports: ["db/", "providers/"],
    reason: "the command line's composition root",
  },
  {
    file: "embedded/demo/",
    imports: ["providers/"],
    reason: "fills a new database with history, by the services and with simulated providers",
  },
  {
    file: "cli/",
    imports: ["embedded/runFile.ts"],
    reason: "the URLs of a running `npm start`",
  },
  {
    file: "api/store/",
    imports: ["domain/stores/", "db/stores/", "services/stores/"],
    reason: "every endpoint of the store interface acts for a store",
  },
  {
    file: "db/accounts/accounts.ts",
    imports: ["domain/charities/"],
    reason: "an account names its charity provider",
  },
  {
    file: "services/accounts/updateOrganization.ts",
    imports: ["services/dashboard/updateAccountProfile.ts"],
    reason: "an organization's settings include its public profile",
  },
  {
    file: "services/billing/separateDeployment.ts",
    imports: ["db/webhooks/"],
    reason: "a separated copy sends nothing to the original's clients",
  },
  {
    file: "db/events/feed.ts",
    imports: [
      "domain/registrations/presentRegistration.ts",
      "db/registrations/registrationColumns.ts",
    ],
    reason: "a new registration is an event by itself",
  },
  {
    file: "services/planting/evidence/createSummaryReader.ts",
    imports: ["db/registrations/"],
    reason: "the summary counts registered trees",
  },
];

/** Packages that only some layers use. Other packages may be used everywhere. */
const PACKAGES: readonly {
  readonly package: RegExp;
  readonly layers: Readonly<Record<string, Access>>;
  readonly message: string;
}[] = [
  {
    package: /^(?:koa|koa-bodyparser|koa-compose|@koa\/.*)$/u,
    layers: { api: "all", test: "all", bench: "all" },
    message: "only api/ speaks HTTP to clients",
  },
  {
    package: /^commander$/u,
    layers: { cli: "all", test: "all" },
    message: "only cli/ parses a command line",
  },
  {
    package: /^stripe$/u,
    layers: { providers: "all", test: "all" },
    message: "only providers/billing/ calls Stripe",
  },
  {
    package: /^(?:pg|pg-copy-streams|@slonik\/.*)$/u,
    layers: { db: "all", embedded: "all", test: "all", bench: "all" },
    message: "only db/ talks to PostgreSQL",
  },
  {
    package: /^slonik$/u,
    layers: {
      db: "all",
      test: "all",
      bench: "all",
      activities: "types",
      api: "types",
      cli: "types",
      embedded: "types",
      program: "types",
      providers: "all",
      services: "types",
      worker: "types",
    },
    message: "only db/ runs queries; elsewhere slonik is imported for its types",
  },
  {
    package: /^@temporalio\/workflow$/u,
    layers: { workflows: "all" },
    message: "only workflows/ holds replayed code",
  },
  {
    package: /^@temporalio\/activity$/u,
    layers: { activities: "all" },
    message: "only activities/ run in an activity's context",
  },
  {
    package: /^@temporalio\/worker$/u,
    layers: { worker: "all", test: "all" },
    message: "only worker/ runs a Temporal worker",
  },
  {
    package: /^@temporalio\/client$/u,
    layers: { api: "all", cli: "all", program: "all", worker: "all", test: "all" },
    message: "this layer does not call Temporal",
  },
  {
    package: /^@temporalio\/common$/u,
    layers: { activities: "all", cli: "all", program: "all", workflows: "all", test: "all" },
    message: "this layer does not know Temporal",
  },
  {
    package: /^node:/u,
    layers: Object.fromEntries(
      [...Object.keys(LAYERS), "bench", "clients", "test", "lint"]
        .filter((layer) => layer !== "domain" && layer !== "workflows")
        .map((layer) => [layer, "all"]),
    ),
    message: "domain/ and workflows/ do no I/O",
  },
];

type Specifier = {
  readonly importKind?: "type" | "value";
  readonly imported?: { readonly name?: string; readonly value?: string };
};
type ImportNode = {
  readonly source: { readonly value: unknown } | null;
  readonly importKind?: "type" | "value";
  readonly exportKind?: "type" | "value";
  readonly specifiers?: readonly Specifier[];
};
type RuleContext = {
  readonly filename: string;
  readonly cwd: string;
  readonly report: (problem: { readonly message: string; readonly node: unknown }) => void;
};

const layerOf = (file: string): string => file.split("/")[0] ?? "";

/** The capability folder of a file, or undefined. */
const capabilityOf = (file: string): string | undefined =>
  file
    .split("/")
    .slice(1, -1)
    .find((folder) => folder in CAPABILITIES);

const isWithin = (file: string, path: string): boolean =>
  path.endsWith("/") ? file.startsWith(path) : file === path;

const isException = (file: string, target: string): boolean =>
  EXCEPTIONS.some(
    (exception) =>
      isWithin(file, exception.file) && exception.imports.some((path) => isWithin(target, path)),
  );

const isTypeImport = (node: ImportNode): boolean =>
  node.importKind === "type" || node.exportKind === "type";

const isAllowed = (access: Access | undefined, node: ImportNode): boolean =>
  access === "all" ||
  (access !== undefined && isTypeImport(node)) ||
  (access === "reads" &&
    (node.specifiers ?? []).every(({ imported }) =>
      READ.test(imported?.name ?? imported?.value ?? ""),
    ));

/** Returns what is wrong with the import of a package, or null. */
const checkPackage = (file: string, name: string, node: ImportNode): string | null => {
  const rule = PACKAGES.find((candidate) => candidate.package.test(name));
  return rule && !isAllowed(rule.layers[layerOf(file)], node) ? rule.message : null;
};

/** Returns what is wrong with the import of one of our files, or null. */
const checkFile = (file: string, target: string, node: ImportNode): string | null => {
  const [from, to] = [layerOf(file), layerOf(target)];
  const layers = LAYERS[from];
  if (!layers || isException(file, target)) {
    return null;
  }
  if (target === "db/sql.ts" && from !== "db") {
    return "only db/ writes queries";
  }
  if (from !== to && !isAllowed(layers[to], node)) {
    return layers[to] === undefined
      ? `${from}/ does not import ${to}/`
      : `${from}/ imports only ${layers[to]} from ${to}/`;
  }
  const [mine, theirs] = [capabilityOf(file), capabilityOf(target)];
  if (mine && theirs && mine !== theirs && theirs !== "accounts") {
    return CAPABILITIES[mine]?.includes(theirs)
      ? null
      : `the capability ${mine} does not import ${theirs}`;
  }
  if (
    !mine &&
    theirs &&
    theirs !== "accounts" &&
    SHARING.has(from) &&
    (to === from || to === "db")
  ) {
    return `what capabilities share in ${from}/ does not import ${theirs}`;
  }
  return null;
};

const check = (context: RuleContext, node: ImportNode): void => {
  const name = node.source?.value;
  if (typeof name !== "string") {
    return;
  }
  const file = relative(context.cwd, context.filename);
  const problem = name.startsWith(".")
    ? checkFile(file, join(dirname(file), name), node)
    : checkPackage(file, name, node);
  if (problem !== null) {
    context.report({ message: problem, node });
  }
};

const imports = {
  create: (context: RuleContext) => {
    const visit = (node: ImportNode): void => check(context, node);
    return {
      ImportDeclaration: visit,
      ExportNamedDeclaration: visit,
      ExportAllDeclaration: visit,
      ImportExpression: visit,
    };
  },
};

// oxlint-disable-next-line import/no-default-export -- the linter loads a plugin by its default export.
export default { meta: { name: "architecture" }, rules: { imports } };
