import type { Command } from "@commander-js/extra-typings";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import {
  deploymentNameOf,
  describeAccount,
  describeHold,
  findHold,
} from "../../modules/billing/deployment.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { moveToStripe } from "../../modules/billing/moveToStripe.ts";
import { separateDeployment } from "../../modules/billing/holdUsage.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openBillingChange, openChange, operatorName, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { printFields, printJson, printObjects, printResult, snakeCased } from "../output/print.ts";
import { sayHold } from "../output/printUsage.ts";

const addShowCommand = (parent: Command, { io, connections }: CliContext): void => {
  parent
    .command("show")
    .description("Show the deployment's id, its processor and its database")
    .action(async () => {
      const {
        processor,
        hold: _hold,
        isHoldFromElsewhere: _from,
        ...recorded
      } = await readDeployment(await connections.database());
      const hold = findHold({ ...recorded, hold: _hold });
      const fields = {
        temporal_name: deploymentNameOf(recorded),
        processor: processor?.name ?? "not recorded; no worker has started yet",
        stripe_account: processor?.name === "stripe" ? describeAccount(processor.account) : null,
        ...snakeCased(recorded),
        usage_held: hold && describeHold(hold),
      };
      printResult(io, { ...fields, usage_held: hold }, () => printFields(io, fields));
    });
};

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
    { isDryRun, operator: operatorName(as) },
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

const SEPARATE_HELP = `
Use this for a copy that is used beside the original, such as a database for tests. The copy
gets an id, and so workflows and task queues of its own. The first worker records its
processor anew, which is never the original's live Stripe account. Usage is held, and all webhook
endpoints are disabled. Run it before you start any program with the copy.`;

const addSeparateCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("separate")
      .description("Turn a copied database into a separate deployment")
      .option(
        "--is-copy",
        "the database is a copy that looks like the original, such as a copied disk",
      ),
  )
    .addHelpText("after", SEPARATE_HELP)
    .action(async ({ isCopy, ...operator }) => {
      const { io } = context;
      const { name, originalName, hold, disabledEndpoints } = await separateDeployment(
        await openChange(context, operator),
        { isKnownCopy: isCopy === true, by: operatorName(operator.as) },
      );
      printResult(io, {
        temporal_name: name,
        original_temporal_name: originalName,
        usage_held: hold,
        disabled_webhook_endpoints: disabledEndpoints,
      });
      say(
        io,
        `This database is now deployment ${name}; ${originalName} continues without it. Start this deployment's programs with their own settings, without the original's Stripe key.`,
      );
      say(
        io,
        "Its usage is held. The original sends what was pending in live mode. To process usage here, run `impact usage resume --nothing-was-lost`.",
      );
      say(
        io,
        `${counted(disabledEndpoints, "webhook endpoint was", "webhook endpoints were")} disabled, so that the original's clients receive nothing from here. To use one, run \`impact webhook update\` with the URL of your server and --enable.`,
      );
    });
};

export const addDeploymentCommands = (deployment: Command, context: CliContext): void => {
  addShowCommand(deployment, context);
  addMoveToStripeCommand(deployment, context);
  addSeparateCommand(deployment, context);
};
