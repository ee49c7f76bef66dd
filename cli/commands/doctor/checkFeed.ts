import { findFeedBlocker } from "../../../db/events/feed.ts";
import type { CliContext } from "../../context.ts";
import { formatTime } from "../../output/formatTable.ts";
import { checkWithDatabase, ok, warning, wrong } from "./check.ts";
import type { Finding } from "./check.ts";

const TOLERATED_MS = 5 * 60 * 1000;

/** Checks that no open transaction keeps clients from seeing new events. */
export const checkFeed = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "event feed", async () => {
    const blocker = await findFeedBlocker(await context.connections.database());
    if (blocker === null) {
      return ok("no transaction holds it back");
    }
    const { pid, role, openSince } = blocker;
    if (pid === null) {
      return wrong("a prepared transaction holds it back; end it, see pg_prepared_xacts");
    }
    const transaction = `a transaction of process ${pid}, role ${role ?? "unknown"},`;
    if (openSince === null) {
      return warning(`${transaction} holds it back; only its own role can see since when`);
    }
    const detail = `${transaction} has held it back since ${formatTime(openSince)}`;
    return context.clock.now().getTime() - openSince.getTime() <= TOLERATED_MS
      ? ok(detail)
      : wrong(`${detail}; end it with \`SELECT pg_terminate_backend(${pid})\``);
  });
