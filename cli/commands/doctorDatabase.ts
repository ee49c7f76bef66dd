import { listExpiringKeys } from "../../modules/accounts/apiKeys.sql.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import {
  findLastReconciliation,
  readLastSuccess,
} from "../../modules/billing/reconciliation/reconciliations.sql.ts";
import { needsOperator } from "../../modules/billing/meterEvents.rules.ts";
import { countUsageAttention } from "../../modules/billing/meterEventReports.sql.ts";
import { listWaitingStreams } from "../../modules/billing/sending/waitingStreams.sql.ts";
import { readRole, readServerStatus } from "../../db/connections/serverStatus.ts";
import { LONGEST_USAGE_LAG_MS, timeOf } from "../../modules/billing/usage.rules.ts";
import { describeEncryption } from "../../runtime/config/databaseUrl.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { DAY_MS, HOUR_MS } from "../../runtime/durations.rules.ts";
import { formatTime } from "../output/formatTable.ts";
import { nameOfCause } from "../output/printUsage.ts";
import { ok, warning, wrong } from "./doctorFindings.ts";
import type { Checks, DatabaseContext, Result } from "./doctorFindings.ts";
import type { Cli } from "../command.ts";

/** Far below the minutes of clock skew at which a processor would reject usage. */
const TOLERATED_SKEW_MS = 5000;
const TOLERATED_WAIT_SECONDS = 5 * 60;

const checkClock = async ({ db, clock }: DatabaseContext): Promise<Result> => {
  const sentAtMs = clock.now().getTime();
  const { now } = await readServerStatus(db);
  const receivedAtMs = clock.now().getTime();
  const aheadMs = Math.round(now.getTime() - (sentAtMs + receivedAtMs) / 2);
  const detail = `the database clock is ${(Math.abs(aheadMs) / 1000).toFixed(1)} s ${aheadMs < 0 ? "behind" : "ahead of"} this machine`;
  return Math.abs(aheadMs) <= TOLERATED_SKEW_MS
    ? ok(detail)
    : wrong(`${detail}; synchronize both clocks with NTP`);
};

const checkWrites = async ({ db }: DatabaseContext): Promise<Result> => {
  const { acceptsWrites } = await readServerStatus(db);
  return acceptsWrites
    ? ok("accepted")
    : wrong(
        "the database is read-only: it is a standby, or its disk is full. Free space or promote it, or set DATABASE_URL to the primary server",
      );
};

const checkEncryption = async ({ connections }: Cli): Promise<Result> =>
  ok(describeEncryption(await connections.databaseUrl()));

const checkRole = async ({ db, connections }: DatabaseContext): Promise<Result> => {
  const { name, mayChangeSchema } = await readRole(db);
  if (!mayChangeSchema) {
    return ok(`${name} may not change the schema`);
  }
  const detail = `${name} may change the schema and the audit log`;
  return connections.config().DATABASE_OWNER_URL === undefined
    ? ok(`${detail}; DATABASE_OWNER_URL separates the roles`)
    : wrong(`${detail}; set DATABASE_URL to a URL with another role, and run \`impact migrate\``);
};

const checkBacklog = async ({ db, clock }: DatabaseContext): Promise<Result> => {
  const [oldest] = await listWaitingStreams(db);
  if (oldest === undefined) {
    return ok("none");
  }
  const now = clock.now().getTime();
  const askedSince = new Date(now - LONGEST_USAGE_LAG_MS - TOLERATED_WAIT_SECONDS * 1000);
  const [unasked] = await listWaitingStreams(db, askedSince);
  if (unasked === undefined) {
    return ok("Stripe is asked about all of it, once its sums are complete");
  }
  const waitedSeconds = Math.round(now / 1000 - unasked.second);
  const detail = `the oldest is from ${formatTime(timeOf(unasked.second))}`;
  return waitedSeconds <= TOLERATED_WAIT_SECONDS
    ? ok(detail)
    : wrong(`${detail}; see \`impact usage\``);
};

const checkUsage = async ({ db }: DatabaseContext): Promise<Result> => {
  const { hold } = await readDeployment(db);
  const attention = (await countUsageAttention(db)).filter(({ cause }) => needsOperator(cause));
  const items = attention.reduce((sum, each) => sum + each.items, hold ? 1 : 0);
  const causes = [
    ...attention.map((each) => `${each.items} ${nameOfCause(each.cause)}`),
    ...(hold ? ["the hold of usage"] : []),
  ].join(", ");
  return items === 0
    ? ok("nothing needs a person")
    : wrong(
        `${counted(items, "item needs", "items need")} a person (${causes}); see \`impact usage\``,
      );
};

/** A nightly reconciliation that failed once, and some hours to repair it. */
const TOLERATED_RECONCILIATION_AGE_MS = 36 * HOUR_MS;

const checkReconciliation = async ({ db, clock }: DatabaseContext): Promise<Result> => {
  const { lastSuccessAt, installedAt } = await readLastSuccess(db);
  const error = (await findLastReconciliation(db))?.error ?? null;
  const success =
    lastSuccessAt === null
      ? "none has succeeded yet"
      : `the last success was at ${formatTime(lastSuccessAt)}`;
  const detail = error === null ? success : `${success}; the last one failed: ${error}`;
  const ageMs = clock.now().getTime() - (lastSuccessAt ?? installedAt).getTime();
  return error === null && ageMs <= TOLERATED_RECONCILIATION_AGE_MS
    ? ok(detail)
    : wrong(`${detail}; see \`impact usage\``);
};

/** Long enough to give a client another key. */
const NOTICE_DAYS = 14;

/** The clients of an expired key receive the response for an unknown one. */
const checkKeys = async ({ db, clock }: DatabaseContext): Promise<Result> => {
  const now = clock.now();
  const until = new Date(now.getTime() + NOTICE_DAYS * DAY_MS);
  const keys = await listExpiringKeys(db, now, until);
  const [first] = keys;
  return first === undefined
    ? ok(`none expires within ${NOTICE_DAYS} days`)
    : warning(
        `${counted(keys.length, "valid key expires", "valid keys expire")} within ${NOTICE_DAYS} days, ${first.id} (${first.mode}, ${first.accountName}) on ${formatTime(first.expiresAt)}. Issue others with \`impact key issue\``,
      );
};

export const DATABASE_CHECKS: Checks<DatabaseContext> = {
  "database writes": checkWrites,
  "database connection": checkEncryption,
  "database role": checkRole,
  clock: checkClock,
  "unreported usage": checkBacklog,
  usage: checkUsage,
  reconciliation: checkReconciliation,
  "API keys": checkKeys,
};
