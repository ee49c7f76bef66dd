import { listWatchedSubscriptions } from "../../../db/billing/processorEvents/stripeSubscriptions.ts";
import { listSubscriptionProblems } from "../../../domain/billing/subscriptions.ts";
import type { CliContext } from "../../context.ts";
import { checkWithDatabase, ok, skipped, wrong } from "./check.ts";
import type { Finding } from "./check.ts";

const SHOWN = 10;

/** Reports the problems of subscriptions as they were last read. */
export const checkWatchedSubscriptions = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "subscriptions as last read", async () => {
    const watched = await listWatchedSubscriptions(await context.connections.database(), null);
    if (watched.length === 0) {
      return skipped("no subscription has been read yet");
    }
    const problems = watched
      .filter(({ policy }) => policy !== "keep")
      .flatMap((subscription) =>
        listSubscriptionProblems(subscription).map(
          ({ text }) => `${subscription.accountName}: its subscription ${text}.`,
        ),
      );
    const hidden = problems.length - SHOWN;
    return problems.length === 0
      ? ok(`${watched.length} read, and none needs attention`)
      : wrong(
          [...problems.slice(0, SHOWN), ...(hidden > 0 ? [`And ${hidden} more.`] : [])].join(" "),
        );
  });
