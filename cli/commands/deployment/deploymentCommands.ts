import type { Command } from "commander";
import type { Context } from "../../context.ts";
import { operatorOption, reasonOption } from "../../operator.ts";
import { moveDeploymentToStripe } from "./moveDeploymentToStripe.ts";
import type { MoveOptions } from "./moveDeploymentToStripe.ts";
import { showDeployment } from "./showDeployment.ts";

const MOVE_HELP = `
Makes Stripe the processor of a deployment that the built-in ledger has billed so far.
The ledger's live usage of the current billing cycle, of organizations with a Stripe
customer, is reported to Stripe; earlier usage stays in the ledger. Set
STRIPE_SECRET_KEY first. To move an organization that gets its customer later, repeat
the command.`;

export const addDeploymentCommands = (program: Command, context: Context): void => {
  const deployment = program
    .command("deployment")
    .description("Show and change what belongs to the whole deployment");
  deployment
    .command("show")
    .description("Show the deployment's id, its processor and its database")
    .option("--json", "JSON output")
    .action((options: { readonly json?: true }) => showDeployment(context, options));
  deployment
    .command("move-to-stripe")
    .description("Move billing from the built-in ledger to Stripe")
    .option("--dry-run", "show what would be moved")
    .addOption(reasonOption())
    .addOption(operatorOption())
    .option("--json", "JSON output")
    .addHelpText("after", MOVE_HELP)
    .action((options: MoveOptions) => moveDeploymentToStripe(context, options));
};
