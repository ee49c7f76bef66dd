import type { EndpointBacklog } from "../../../db/webhooks/endpointHealth.ts";
import {
  listEndpointBacklogs,
  listEndpointsDisabledByFailure,
} from "../../../db/webhooks/endpointHealth.ts";
import { readWebhookState } from "../../../db/webhooks/state.ts";
import { counted } from "../../../domain/counted.ts";
import { HOUR_MS } from "../../../domain/durations.ts";
import type { CliContext } from "../../context.ts";
import { formatTime } from "../../output/formatTable.ts";
import { checkWithDatabase, ok, warning, wrong } from "./check.ts";
import type { Finding, Result } from "./check.ts";

/** A delivery that waits longer has failed several times. */
const TOLERATED_AGE_MS = HOUR_MS;

/** A worker begins due deliveries within seconds. */
const TOLERATED_UNATTENDED_SECONDS = 5 * 60;

/** Fewer deliveries do not show whether a backlog grows. */
const TELLING_DELIVERIES = 10;

const checkDisabled = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "webhook endpoints", async () => {
    const disabled = await listEndpointsDisabledByFailure(await context.connections.database());
    const [latest] = disabled;
    if (latest === undefined) {
      return ok("none is disabled because of its responses");
    }
    const { id, url, disabledAt } = latest;
    const since = disabledAt.toISOString();
    return warning(
      `${counted(disabled.length, "is", "are")} disabled because of failures, the latest (${url}) since ${formatTime(disabledAt)}; once its server works: ` +
        `\`impact webhook enable ${id}\`, then \`impact webhook recover ${id} --since ${since}\``,
    );
  });

/** Most of what was recorded in the last hour is pending. */
const isGrowing = ({ recent, recentPending }: EndpointBacklog): boolean =>
  recent >= TELLING_DELIVERIES && recentPending * 2 > recent;

const describeBacklog = (backlogs: readonly EndpointBacklog[]): Result => {
  const growing = backlogs.filter(isGrowing).toSorted((one, two) => two.pending - one.pending);
  const [largest] = growing;
  if (largest === undefined) {
    return ok("none is growing");
  }
  const { id, url, pending, recent, recentPending } = largest;
  const others =
    growing.length === 1
      ? ""
      : ` The backlogs of ${counted(growing.length - 1, "other endpoint")} are growing as well.`;
  return warning(
    `the backlog of ${url} is growing: ${counted(pending, "delivery is", "deliveries are")} pending, and ${recentPending} of the last hour's ${recent}; ` +
      `see \`impact webhook deliveries ${id} --state pending\`.${others}`,
  );
};

const describeOldest = (
  backlogs: readonly EndpointBacklog[],
  unattendedSeconds: number,
  now: Date,
): Result => {
  if (unattendedSeconds > TOLERATED_UNATTENDED_SECONDS) {
    return wrong(
      `a delivery has been due for ${counted(Math.floor(unattendedSeconds / 60), "minute")}, and no worker makes it; ` +
        "see the log of the worker, and `impact workflow list`",
    );
  }
  const [oldest] = backlogs;
  if (oldest === undefined) {
    return ok("none is undelivered");
  }
  const { id, url, oldestAt } = oldest;
  const detail = `the oldest undelivered one is of ${formatTime(oldestAt)}, to ${url}`;
  return now.getTime() - oldestAt.getTime() <= TOLERATED_AGE_MS
    ? ok(detail)
    : warning(`${detail}; see \`impact webhook deliveries ${id} --state pending\``);
};

/** Checks that webhooks arrive: disabled endpoints, growing backlogs, and the age of the oldest undelivered delivery. */
export const checkWebhooks = async (context: CliContext): Promise<readonly Finding[]> => {
  const now = context.clock.now();
  const readBacklogs = async (): Promise<readonly EndpointBacklog[]> =>
    listEndpointBacklogs(await context.connections.database(), new Date(now.getTime() - HOUR_MS));
  return Promise.all([
    checkDisabled(context),
    checkWithDatabase(context, "webhook backlogs", async () =>
      describeBacklog(await readBacklogs()),
    ),
    checkWithDatabase(context, "webhook deliveries", async () => {
      const db = await context.connections.database();
      const { unattendedSeconds } = await readWebhookState(db, now);
      return describeOldest(await readBacklogs(), unattendedSeconds, now);
    }),
  ]);
};
