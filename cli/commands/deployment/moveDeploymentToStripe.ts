import { describeAccount } from "../../../domain/billing/deployment.ts";
import { counted } from "../../../domain/counted.ts";
import { moveToStripe } from "../../../services/billing/moveToStripe.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { say } from "../../io.ts";
import { operatorName, openBillingChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson, printRows } from "../../output/print.ts";
import { sayIfHeld } from "../billing/sayIfHeld.ts";

export type MoveOptions = ChangeOptions & {
  readonly dryRun?: true;
};

export const moveDeploymentToStripe = async (
  context: CliContext,
  { dryRun, as, reason, json }: MoveOptions,
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
  if (json) {
    printJson(io, {
      dry_run: isDryRun,
      stripe_account_id: account.id,
      stripe_livemode: account.isLive,
      repeated: isRepeated,
      usage: usage.map((moved) => ({
        account_id: moved.accountId,
        account_name: moved.accountName,
        meter: moved.kind,
        since: moved.since,
        events: moved.events,
        quantity: moved.quantity,
        unfinished: moved.unfinished,
      })),
    });
  } else if (usage.length > 0) {
    printRows(io, usage, {
      organization: (moved) => moved.accountName,
      meter: (moved) => moved.kind,
      since: (moved) => moved.since,
      events: (moved) => moved.events,
      quantity: (moved) => moved.quantity,
      unfinished: (moved) => moved.unfinished,
    });
  }
  for (const { accountName, kind, ended } of usage) {
    if (ended > 0) {
      say(
        io,
        `The billing period of ${counted(ended, "meter event")} of ${accountName} (${kind}) has ended: their usage may not be on any invoice.`,
      );
    }
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
  if (moved > 0 && !(await sayIfHeld(io, await connections.database()))) {
    say(io, "The workers send what was moved.");
  }
  if (usage.some(({ unfinished }) => unfinished > 0)) {
    say(io, "Some usage was being recorded in the ledger. Repeat the command to move it.");
  }
};
