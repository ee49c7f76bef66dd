import { readServerStatus } from "../../../db/serverStatus.ts";
import { findOldestUnreportedSecond } from "../../../db/billing/usageFacts.ts";
import { countFailedMeterEvents } from "../../../db/billing/meterEventReports.ts";
import type { Context } from "../../context.ts";
import { formatInstant } from "../../output/formatTable.ts";
import { check, ok, skipped, wrong } from "./check.ts";
import type { Finding } from "./check.ts";

/** Usage is sent within seconds; the processor's clock may differ from ours by minutes before it matters. */
const TOLERATED_SKEW_MS = 5000;
const TOLERATED_WAIT_SECONDS = 5 * 60;

const checkClock = async ({ connections, clock }: Context): Promise<Finding> =>
  check("clock", async () => {
    const db = await connections.database();
    const askedAtMs = clock.now().getTime();
    const { now } = await readServerStatus(db);
    const answeredAtMs = clock.now().getTime();
    const aheadMs = Math.round(now.getTime() - (askedAtMs + answeredAtMs) / 2);
    const detail = `the database's clock is ${(Math.abs(aheadMs) / 1000).toFixed(1)} s ${aheadMs < 0 ? "behind" : "ahead"}`;
    return Math.abs(aheadMs) <= TOLERATED_SKEW_MS
      ? ok(detail)
      : wrong(`${detail}: set both machines' clocks by NTP`);
  });

const checkBacklog = ({ connections, clock }: Context): Promise<Finding> =>
  check("unreported usage", async () => {
    const second = await findOldestUnreportedSecond(await connections.database());
    if (second === null) {
      return ok("none waits");
    }
    const waitedSeconds = Math.round(clock.now().getTime() / 1000 - second);
    const detail = `the oldest is of ${formatInstant(new Date(second * 1000))}`;
    return waitedSeconds <= TOLERATED_WAIT_SECONDS
      ? ok(detail)
      : wrong(`${detail}: see \`impact usage list --state pending\``);
  });

const checkFailed = ({ connections }: Context): Promise<Finding> =>
  check("failed usage", async () => {
    const failed = await countFailedMeterEvents(await connections.database());
    return failed === 0
      ? ok("none")
      : wrong(
          `${failed} meter event${failed === 1 ? "" : "s"}: see \`impact usage list --state failed\``,
        );
  });

/** The database and what stands in it that a person should know of. */
export const checkDatabase = async (context: Context): Promise<readonly Finding[]> => {
  const reachable = await check("database", async () => {
    const { version } = await readServerStatus(await context.connections.database());
    return ok(`PostgreSQL ${version}, schema up to date`);
  });
  if (reachable.status !== "ok") {
    const unknown = skipped("needs the database");
    return [
      reachable,
      { check: "clock", ...unknown },
      { check: "unreported usage", ...unknown },
      { check: "failed usage", ...unknown },
    ];
  }
  return [
    reachable,
    await checkClock(context),
    await checkBacklog(context),
    await checkFailed(context),
  ];
};
