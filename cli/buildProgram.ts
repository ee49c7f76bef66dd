import { Command, Help } from "@commander-js/extra-typings";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { Cli, Define } from "./command.ts";
import { EXIT_CODES_HELP } from "./exitCodes.ts";
import { escapeUnsafeInLines } from "./output/printable.ts";
import manifest from "../package.json" with { type: "json" };

const EXAMPLES_HELP = `
Examples:
  impact org create --name "Green Shop"   create an organization and print its API keys
  impact find '#1001'                     find an order, customer, key or id
  impact usage                            show what billing needs a person for
  impact doctor                           check everything that the service depends on`;

const CONNECTIONS_HELP = `
Connection:
  impact uses DATABASE_URL, TEMPORAL_ADDRESS and STRIPE_SECRET_KEY if they are set.
  Otherwise it connects to the \`npm start\` that runs with the data folder DATA_DIR
  (default: ./.data).`;

const HELP_COMMAND = ["help [command...]", "Show help for a command"] as const;

const MORE_HELP = 'Run "impact <command> --help" for more information about a command.';

/** Commander marks required arguments only. */
const optionDescription: Help["optionDescription"] = (option) =>
  `${new Help().optionDescription(option)}${option.mandatory ? " (required)" : ""}`;

/** The help of the program shows only names: its commands are not loaded for it. */
const subcommandTerm: Help["subcommandTerm"] = (command) =>
  command.parent?.parent === null ? command.name() : new Help().subcommandTerm(command);

const DESCRIPTIONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "Accounts:": {
    org: "Manage organizations, the accounts of the standalone interface",
    store: "Manage stores, the accounts of the store-platform interface",
    key: "Manage API keys; an account can have several, so that they can be rotated",
    audit: "Read the audit log: who changed what, and why",
  },
  "Records:": {
    find: "Find records by an id, key, order, customer or meter event",
    statement: "Show what an organization registered and how far it was billed",
    export: "Export a list of an organization or a store as CSV or NDJSON",
    refund: "Refund a registration or a donation",
    usage: "Show what billing needs a person for, explain it, and repair it",
    charity: "Manage the built-in catalogue of charities",
    evidence: "Inspect planting orders, record and correct their evidence",
    certificate: "Manage public certificates of registrations, donations and orders",
    webhook: "Manage webhook endpoints and their deliveries",
    import: "Import history from another system",
  },
  "Operations:": {
    doctor: "Check everything that the service depends on",
    migrate:
      "Migrate the database to this release and grant its roles what they need; safe to repeat",
    workflow: "Inspect workflows",
    completion: "Print a script that lets a shell complete commands and options",
  },
};

/** What loads the commands. To load them all takes most of the time of a short command. */
const LOADERS: Readonly<Record<string, () => Promise<Define>>> = {
  org: async () => (await import("./commands/orgs.ts")).addOrgCommands,
  store: async () => (await import("./commands/stores.ts")).addStoreCommands,
  key: async () => (await import("./commands/keys.ts")).addKeyCommands,
  audit: async () => (await import("./commands/audit.ts")).addAuditCommands,
  find: async () => (await import("./commands/find.ts")).defineFindCommand,
  statement: async () => (await import("./commands/statement.ts")).defineStatementCommand,
  export: async () => (await import("./commands/export.ts")).defineExportCommand,
  refund: async () => (await import("./commands/refund.ts")).defineRefundCommand,
  usage: async () => (await import("./commands/usage.ts")).addUsageCommands,
  charity: async () => (await import("./commands/charities.ts")).addCharityCommands,
  evidence: async () => (await import("./commands/planting.ts")).addEvidenceCommands,
  certificate: async () => (await import("./commands/certificates.ts")).addCertificateCommands,
  webhook: async () => (await import("./commands/webhooks.ts")).addWebhookCommands,
  import: async () => (await import("./commands/import.ts")).addImportCommands,
  doctor: async () => (await import("./commands/doctor.ts")).defineDoctorCommand,
  migrate: async () => (await import("./commands/migrate.ts")).defineMigrateCommand,
  workflow: async () => (await import("./commands/workflow.ts")).addWorkflowCommands,
  completion: async () => (await import("./commands/completion.ts")).defineCompletionCommand,
};

/** They write a file or a script, or print nothing but JSON. */
const WITHOUT_JSON = new Set(["export", "export-customer", "listen", "completion"]);

const OPTION = /^--[a-z][a-z-]*(?:=|$)/u;

/**
 * Adds `--json` to a command without subcommands, and rejects an option in the place of another option's value, which
 * Commander would take as the value.
 */
const completeOptions = (command: CommandUnknownOpts): void => {
  command.commands.forEach(completeOptions);
  if (command.commands.length === 0 && !WITHOUT_JSON.has(command.name())) {
    command.option("--json", "JSON output");
  }
  for (const option of command.options.filter(({ required }) => required)) {
    command.on(`option:${option.name()}`, (value: string) => {
      if (OPTION.test(value)) {
        command.error(`error: option '${option.flags}' argument missing: ${value} is an option`);
      }
    });
  }
};

/** Returns the name of the command that a command line runs, or null if all commands are needed. */
const commandIn = (args: readonly string[]): string | null | undefined => {
  const name = args.find((arg) => !arg.startsWith("-"));
  return name === "completion" ? null : name;
};

/**
 * Builds the `impact` program. It throws instead of exiting, so that tests can run it in their process.
 * @param args the command line, of whose command only the options and subcommands are defined; null to define all
 */
export const buildProgram = async (
  cli: Cli,
  args: readonly string[] | null = null,
): Promise<Command> => {
  const { stdout, stderr, json } = cli.io;
  const program = new Command("impact")
    .description("Operate the impact tracking service.")
    .usage("<command> [options]")
    .version(manifest.version, "-V, --version", "show the version")
    .helpOption("-h, --help", "show help")
    .helpCommand(...HELP_COMMAND)
    .configureHelp({ optionDescription, subcommandTerm })
    // A group may have options beside its commands, such as `impact usage --json`.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      // With --json, the error is printed as JSON.
      writeErr: (text) => json || stderr.write(escapeUnsafeInLines(text)),
    })
    .showSuggestionAfterError()
    .showHelpAfterError("See --help.")
    .addHelpText(
      "after",
      `${EXAMPLES_HELP}\n${CONNECTIONS_HELP}\n${EXIT_CODES_HELP}\n${MORE_HELP}`,
    );
  const wanted = args === null ? null : commandIn(args);
  for (const [heading, group] of Object.entries(DESCRIPTIONS)) {
    program.commandsGroup(heading);
    for (const [name, description] of Object.entries(group)) {
      const command = program.command(name).description(description);
      if (wanted === null || name === wanted) {
        const define = await LOADERS[name]?.();
        define?.(command, cli);
        completeOptions(command);
      }
    }
  }
  // Again, because it joins the group of the commands before it.
  return program.helpCommand(...HELP_COMMAND);
};
