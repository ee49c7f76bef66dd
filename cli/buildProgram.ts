import { readFileSync } from "node:fs";
import { Command, Help } from "commander";
import type { Context } from "./context.ts";
import { EXIT_CODES_HELP } from "./exitCodes.ts";
import { escapeUnsafeInLines } from "./output/printable.ts";

const EXAMPLES_HELP = `
Examples:
  impact org create --name "Green Shop"   create an organization and print its API keys
  impact find '#1001'                     find an order, customer, key or id
  impact usage list --state failed        list usage that needs attention
  impact doctor                           check everything that the service depends on`;

const CONNECTIONS_HELP = `
Connection:
  impact uses DATABASE_URL, TEMPORAL_ADDRESS and STRIPE_SECRET_KEY if they are set.
  Otherwise it connects to the \`npm start\` that runs with the data folder DATA_DIR
  (default: ./.data).`;

const HELP_COMMAND = ["help [command]", "Show help for a command"] as const;

const MORE_HELP = 'Run "impact <command> --help" for more information about a command.';

const readVersion = (): string => {
  const manifest: unknown = JSON.parse(
    readFileSync(new URL("../package.json", import.meta.url), "utf8"),
  );
  return typeof manifest === "object" && manifest !== null && "version" in manifest
    ? String(manifest.version)
    : "unknown";
};

/** Commander marks required arguments only. */
const optionDescription: Help["optionDescription"] = (option) =>
  `${new Help().optionDescription(option)}${option.mandatory ? " (required)" : ""}`;

type AddCommands = (program: Command, context: Context) => void;

/** Adds the commands of each name, by their groups. Loading them all takes most of the time of a short command. */
const COMMANDS: Readonly<Record<string, Readonly<Record<string, () => Promise<AddCommands>>>>> = {
  "Accounts:": {
    org: async () => (await import("./commands/accounts/orgCommands.ts")).addOrgCommands,
    store: async () => (await import("./commands/stores/storeCommands.ts")).addStoreCommands,
    key: async () => (await import("./commands/accounts/keyCommands.ts")).addKeyCommands,
    audit: async () => (await import("./commands/accounts/auditCommands.ts")).addAuditCommands,
  },
  "Records:": {
    find: async () => (await import("./commands/support/findCommand.ts")).addFindCommand,
    statement: async () =>
      (await import("./commands/billing/statementCommand.ts")).addStatementCommand,
    export: async () => (await import("./commands/support/exportCommand.ts")).addExportCommand,
    refund: async () => (await import("./commands/support/refundCommands.ts")).addRefundCommands,
    usage: async () => (await import("./commands/billing/usageCommands.ts")).addUsageCommands,
    charity: async () =>
      (await import("./commands/charities/charityCommands.ts")).addCharityCommands,
    donation: async () =>
      (await import("./commands/charities/donationCommands.ts")).addDonationCommands,
    evidence: async () =>
      (await import("./commands/planting/evidenceCommands.ts")).addEvidenceCommands,
    event: async () => (await import("./commands/events/eventCommands.ts")).addEventCommands,
    certificate: async () =>
      (await import("./commands/dashboard/certificateCommands.ts")).addCertificateCommands,
    webhook: async () =>
      (await import("./commands/webhooks/webhookCommands.ts")).addWebhookCommands,
    import: async () => (await import("./commands/history/importCommands.ts")).addImportCommands,
    "verify-import": async () =>
      (await import("./commands/history/verifyImport.ts")).addVerifyImportCommand,
  },
  "Operations:": {
    doctor: async () => (await import("./commands/doctor/doctorCommand.ts")).addDoctorCommand,
    migrate: async () => (await import("./commands/migrateCommand.ts")).addMigrateCommand,
    deployment: async () =>
      (await import("./commands/deployment/deploymentCommands.ts")).addDeploymentCommands,
    workflow: async () =>
      (await import("./commands/workflow/workflowCommands.ts")).addWorkflowCommands,
    try: async () => (await import("./commands/tryCommands.ts")).addTryCommands,
  },
};

/**
 * Builds the `impact` program. It throws instead of exiting, so that tests can run it in their process.
 * @param args the command line. If it begins with a command's name, the program has that command only.
 * @param printsUsageErrors whether it also prints what is wrong with the command line
 */
export const buildProgram = async (
  context: Context,
  {
    args = [],
    printsUsageErrors = true,
  }: { readonly args?: readonly string[]; readonly printsUsageErrors?: boolean } = {},
): Promise<Command> => {
  const { stdout, stderr } = context.io;
  const program = new Command("impact")
    .description("Operate the impact tracking service.")
    .usage("<command> [options]")
    .version(readVersion(), "-V, --version", "show the version")
    .helpOption("-h, --help", "show help")
    .helpCommand(...HELP_COMMAND)
    .configureHelp({ optionDescription })
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => printsUsageErrors && stderr.write(escapeUnsafeInLines(text)),
    })
    .showSuggestionAfterError()
    .showHelpAfterError("See --help.")
    .addHelpText(
      "after",
      `${EXAMPLES_HELP}\n${CONNECTIONS_HELP}\n${EXIT_CODES_HELP}\n${MORE_HELP}`,
    );
  const name = args.find((arg) => !arg.startsWith("-"));
  const isKnown = Object.values(COMMANDS).some((group) => Object.hasOwn(group, name ?? ""));
  for (const [heading, group] of Object.entries(COMMANDS)) {
    program.commandsGroup(heading);
    for (const [each, load] of Object.entries(group)) {
      if (each === name || !isKnown) {
        const addCommands = await load();
        addCommands(program, context);
      }
    }
  }
  // Again, because it joins the group of the commands before it.
  return program.helpCommand(...HELP_COMMAND);
};
