import { readFileSync } from "node:fs";
import { Command } from "commander";
import { addCharityCommands } from "./commands/charities/charityCommands.ts";
import { addDonationCommands } from "./commands/charities/donationCommands.ts";
import { addDoctorCommand } from "./commands/doctor/doctorCommand.ts";
import { addEvidenceCommands } from "./commands/planting/evidenceCommands.ts";
import { addImportCommands } from "./commands/registrations/importCommands.ts";
import { addKeyCommands } from "./commands/accounts/keyCommands.ts";
import { addMigrateCommand } from "./commands/migrateCommand.ts";
import { addOrgCommands } from "./commands/accounts/orgCommands.ts";
import { addStoreCommands } from "./commands/stores/storeCommands.ts";
import { addTryCommands } from "./commands/tryCommands.ts";
import { addUsageCommands } from "./commands/billing/usageCommands.ts";
import { addWorkflowCommands } from "./commands/workflow/workflowCommands.ts";
import type { Context } from "./context.ts";
import { EXIT_CODES_HELP } from "./exitCodes.ts";

const CONNECTIONS_HELP = `
What it talks to:
  DATABASE_URL, TEMPORAL_ADDRESS and STRIPE_SECRET_KEY where they are set,
  else the \`npm start\` that runs with the data folder DATA_DIR (./.data).`;

const readVersion = (): string => {
  const manifest: unknown = JSON.parse(
    readFileSync(new URL("../package.json", import.meta.url), "utf8"),
  );
  return typeof manifest === "object" && manifest !== null && "version" in manifest
    ? String(manifest.version)
    : "unknown";
};

/** The `impact` program. It throws instead of ending the process, so that tests can run it in theirs. */
export const buildProgram = (context: Context): Command => {
  const { stdout, stderr } = context.io;
  const program = new Command("impact")
    .description("Runs the impact tracking service: organizations, keys, usage, workflows.")
    .version(readVersion())
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
    })
    .showSuggestionAfterError()
    .showHelpAfterError("(add --help for what is possible)")
    .addHelpText("after", `${CONNECTIONS_HELP}\n${EXIT_CODES_HELP}`);
  addOrgCommands(program, context);
  addKeyCommands(program, context);
  addCharityCommands(program, context);
  addDonationCommands(program, context);
  addStoreCommands(program, context);
  addUsageCommands(program, context);
  addEvidenceCommands(program, context);
  addWorkflowCommands(program, context);
  addImportCommands(program, context);
  addTryCommands(program, context);
  addDoctorCommand(program, context);
  addMigrateCommand(program, context);
  return program;
};
