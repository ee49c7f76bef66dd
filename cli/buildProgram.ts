import { readFileSync } from "node:fs";
import { Command } from "commander";
import { addAuditCommands } from "./commands/accounts/auditCommands.ts";
import { addCharityCommands } from "./commands/charities/charityCommands.ts";
import { addDonationCommands } from "./commands/charities/donationCommands.ts";
import { addDeploymentCommands } from "./commands/deployment/deploymentCommands.ts";
import { addDoctorCommand } from "./commands/doctor/doctorCommand.ts";
import { addCertificateCommands } from "./commands/dashboard/certificateCommands.ts";
import { addEventCommands } from "./commands/events/eventCommands.ts";
import { addEvidenceCommands } from "./commands/planting/evidenceCommands.ts";
import { addImportCommands } from "./commands/history/importCommands.ts";
import { addVerifyImportCommand } from "./commands/history/verifyImport.ts";
import { addExportCommand } from "./commands/support/exportCommand.ts";
import { addFindCommand } from "./commands/support/findCommand.ts";
import { addKeyCommands } from "./commands/accounts/keyCommands.ts";
import { addMigrateCommand } from "./commands/migrateCommand.ts";
import { addOrgCommands } from "./commands/accounts/orgCommands.ts";
import { addRefundCommands } from "./commands/support/refundCommands.ts";
import { addStatementCommand } from "./commands/billing/statementCommand.ts";
import { addStoreCommands } from "./commands/stores/storeCommands.ts";
import { addTryCommands } from "./commands/tryCommands.ts";
import { addUsageCommands } from "./commands/billing/usageCommands.ts";
import { addWebhookCommands } from "./commands/webhooks/webhookCommands.ts";
import { addWorkflowCommands } from "./commands/workflow/workflowCommands.ts";
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

/**
 * Builds the `impact` program. It throws instead of exiting, so that tests can run it in their process.
 * @param printsUsageErrors whether it also prints what is wrong with the command line
 */
export const buildProgram = (
  context: Context,
  { printsUsageErrors = true }: { readonly printsUsageErrors?: boolean } = {},
): Command => {
  const { stdout, stderr } = context.io;
  const program = new Command("impact")
    .description("Operate the impact tracking service.")
    .usage("<command> [options]")
    .version(readVersion(), "-V, --version", "show the version")
    .helpOption("-h, --help", "show help")
    .helpCommand(...HELP_COMMAND)
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
  program.commandsGroup("Accounts:");
  addOrgCommands(program, context);
  addStoreCommands(program, context);
  addKeyCommands(program, context);
  addAuditCommands(program, context);
  program.commandsGroup("Records:");
  addFindCommand(program, context);
  addStatementCommand(program, context);
  addExportCommand(program, context);
  addRefundCommands(program, context);
  addUsageCommands(program, context);
  addCharityCommands(program, context);
  addDonationCommands(program, context);
  addEvidenceCommands(program, context);
  addEventCommands(program, context);
  addCertificateCommands(program, context);
  addWebhookCommands(program, context);
  addImportCommands(program, context);
  addVerifyImportCommand(program, context);
  program.commandsGroup("Operations:");
  addDoctorCommand(program, context);
  addMigrateCommand(program, context);
  addDeploymentCommands(program, context);
  addWorkflowCommands(program, context);
  addTryCommands(program, context);
  // Again, because it joins the group of the commands before it.
  return program.helpCommand(...HELP_COMMAND);
};
