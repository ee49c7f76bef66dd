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
import { printJson, printObjects, snakeCased } from "../output/print.ts";
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
  const { account, isRepeated, usage } = await moveToStripe(
    await openBillingChange(context, { as, reason }),
    { isDryRun },
  );
  if (io.json) {
    printJson(io, {
      dry_run: isDryRun,
      stripe_account_id: account.id,
      stripe_livemode: account.isLive,
      repeated: isRepeated,
      usage: usage.map(snakeCased),
    });
  } else if (usage.length > 0) {
    printObjects(
      io,
      usage.map(({ accountName: organization, kind: meter, since, events, quantity }) => ({
        organization,
        meter,
        since,
        events,
        quantity,
      })),
    );
  }
  if (isDryRun) {
    say(
      io,
      isRepeated && usage.length === 0
        ? `This deployment already bills through ${describeAccount(account)}, and no usage is left to move.`
        : "Nothing was changed. Run the command without --dry-run to move the usage.",
    );
    return;
  }
  const moved = usage.reduce((sum, { events }) => sum + events, 0);
  say(
    io,
    `This deployment ${isRepeated ? "already billed" : "now bills"} through ${describeAccount(account)}. Moved ${counted(moved, "meter event")}.`,
  );
  const hold = findHold(await readDeployment(await connections.database()));
  sayHold(io, hold);
  if (moved > 0 && hold === null) {
    say(io, "The workers send what was moved.");
  }
};

const MOVE_HELP = `
Makes Stripe the processor of a deployment that the built-in ledger has billed so far.
The ledger's live usage of the current billing cycle, of organizations with a Stripe
customer, is reported to Stripe; earlier usage stays in the ledger. Set
STRIPE_SECRET_KEY first. To move an organization that gets its customer later, repeat
the command. If a restore has lost a move, repeat it while usage is held, before
impact usage resume: otherwise the usage is billed twice.`;

const addMoveToStripeCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("move-to-stripe")
      .description("Move billing from the built-in ledger to Stripe")
      .option("--dry-run", "show what would be moved"),
  )
    .addHelpText("after", MOVE_HELP)
    .action((options) => moveDeploymentToStripe(context, options));
};

export const addDeploymentCommands = (deployment: Command, context: CliContext): void => {
  addMoveToStripeCommand(deployment, context);
};
