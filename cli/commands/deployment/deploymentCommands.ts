import type { Command } from "commander";
import { Option } from "commander";
import { PROCESSOR_EVENT_STATES } from "../../../domain/billing/processorEvents.ts";
import { parseLimit, parseProcessorEventId, parseReason } from "../../arguments.ts";
import type { CliContext } from "../../context.ts";
import { operatorOption, withAudit } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import type { JsonOption } from "../../output/print.ts";
import { moveDeploymentToStripe } from "./moveDeploymentToStripe.ts";
import type { MoveOptions } from "./moveDeploymentToStripe.ts";
import { separate, takeOver } from "./decideCopy.ts";
import type { SeparateOptions } from "./decideCopy.ts";
import { listEvents, resolveEvent } from "./processorEvents.ts";
import type { ListEventsOptions } from "./processorEvents.ts";
import { showDeployment } from "./showDeployment.ts";

const MOVE_HELP = `
Makes Stripe the processor of a deployment that the built-in ledger has billed so far.
The ledger's live usage of the current billing cycle, of organizations with a Stripe
customer, is reported to Stripe; earlier usage stays in the ledger. Set
STRIPE_SECRET_KEY first. To move an organization that gets its customer later, repeat
the command. If a restore has lost a move, repeat it while usage is held, before
impact usage compare-and-release: otherwise the usage is billed twice.`;

const TAKE_OVER_HELP = `
After a restore, a promotion or a move to another server, newly started workers do not poll
Temporal until an operator confirms, with this command or by releasing usage, that the
database replaces the old one. Make sure that no program uses the old one. Usage stays held.`;

const SEPARATE_HELP = `
Use this for a copy that is used beside the original, such as a database for tests. The copy
gets an id, and so workflows and task queues of its own. The first worker records its
processor anew, which is never the original's live Stripe account. Usage is held, and all webhook
endpoints are disabled. Run it before you start any program with the copy.`;

const RETRY_EVENT_HELP = `
A worker reads the event at Stripe once more. Stripe keeps events for 30 days. An event
that fails again within seven days of its webhook is tried again later by itself.`;

const DISCARD_EVENT_HELP = `
Discarding changes nothing at Stripe and no usage. First find out what the event meant: a
report of refused usage shows as drift in impact usage reconcile, and a change of a
subscription is read every night.`;

export const addDeploymentCommands = (deployment: Command, context: CliContext): void => {
  deployment
    .command("show")
    .description("Show the deployment's id, its processor and its database")
    .action((options: JsonOption) => showDeployment(context, options));
  withAudit(
    deployment
      .command("move-to-stripe")
      .description("Move billing from the built-in ledger to Stripe")
      .option("--dry-run", "show what would be moved"),
  )
    .addHelpText("after", MOVE_HELP)
    .action((options: MoveOptions) => moveDeploymentToStripe(context, options));
  withAudit(
    deployment
      .command("take-over")
      .description("Declare that a restored, promoted or moved database replaces the old one"),
  )
    .addHelpText("after", TAKE_OVER_HELP)
    .action((options: ChangeOptions) => takeOver(context, options));
  withAudit(
    deployment
      .command("separate")
      .description("Turn a copied database into a separate deployment")
      .option(
        "--is-copy",
        "the database is a copy that looks like the original, such as a copied disk",
      ),
  )
    .addHelpText("after", SEPARATE_HELP)
    .action((options: SeparateOptions) => separate(context, options));
  deployment
    .command("list-events")
    .description("List the Stripe events that webhooks announced, latest first")
    .addOption(
      new Option("--state <state>", "state of the events")
        .choices(PROCESSOR_EVENT_STATES)
        .default("failed"),
    )
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .action((options: ListEventsOptions) => listEvents(context, options));
  withAudit(
    deployment
      .command("retry-event")
      .description("Retry a failed Stripe event")
      .argument("<id>", "id of the event, evt_…", parseProcessorEventId),
  )
    .addHelpText("after", RETRY_EVENT_HELP)
    .action((id: string, options: ChangeOptions) => resolveEvent(context, id, "retry", options));
  deployment
    .command("discard-event")
    .description("Close a failed Stripe event without processing it")
    .argument("<id>", "id of the event, evt_…", parseProcessorEventId)
    .requiredOption("--reason <text>", "reason for the audit log", parseReason)
    .addOption(operatorOption())
    .addHelpText("after", DISCARD_EVENT_HELP)
    .action((id: string, options: ChangeOptions) => resolveEvent(context, id, "discard", options));
};
