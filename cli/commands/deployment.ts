import type { Command } from "@commander-js/extra-typings";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import { describeAccount, findHold } from "../../modules/billing/deployment.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { moveToStripe } from "../../modules/billing/moveToStripe.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openBillingChange, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { printJson, printObjects } from "../output/print.ts";
import { sayHold } from "../output/printUsage.ts";

type MoveOptions = ChangeOptions & {
  readonly dryRun?: true;
};

const moveDeploymentToStripe = async (
  context: CliContext,
  { dryRun, as, reason }: MoveOptions,
): Promise<void> => {
  const { io, connections } = context;
  const isDryRun = dryRun === true;
  if ((await connections.stripe()) === null) {
    throw new CommandError(
      EXIT.usage,
      "STRIPE_SECRET_KEY is not set. Set it to a key of the Stripe account that will bill, and run the command again.",
    );
  }
  const deps = await openBillingChange(context, { as, reason });
  const { account, usage } = await moveToStripe(deps, { isDryRun });
  const rows = usage.map(({ accountId, accountName, kind, ...moved }) => ({
    organization: accountName,
    meter: kind,
    ...moved,
    ...(io.json && { account_id: accountId }),
  }));
  if (io.json) {
    printJson(io, { dry_run: isDryRun, stripe_account_id: account.id, usage: rows });
  } else if (rows.length > 0) {
    printObjects(io, rows);
  }
  const moved = usage.reduce((sum, { events }) => sum + events, 0);
  if (isDryRun) {
    say(io, `Nothing was changed. ${counted(moved, "meter event")} would move.`);
    return;
  }
  say(
    io,
    `This deployment bills through ${describeAccount(account)}. Moved ${counted(moved, "meter event")}, which the workers send.`,
  );
  sayHold(io, findHold(await readDeployment(deps.db)));
};

const MOVE_HELP = `
Makes Stripe the processor of a deployment that the built-in ledger has billed so far.
The ledger's live usage of the current billing cycle, of organizations with a Stripe
customer, is reported to Stripe; earlier usage stays in the ledger. Set
STRIPE_SECRET_KEY first. To move an organization that gets its customer later, repeat
the command. If a restore has lost a move, repeat it while usage is held, before
impact usage resume: otherwise the usage is billed twice.`;

export const addDeploymentCommands = (deployment: Command, context: CliContext): void => {
  withAudit(
    deployment
      .command("move-to-stripe")
      .description("Move billing from the built-in ledger to Stripe")
      .option("--dry-run", "show what would be moved"),
  )
    .addHelpText("after", MOVE_HELP)
    .action((options) => moveDeploymentToStripe(context, options));
};
