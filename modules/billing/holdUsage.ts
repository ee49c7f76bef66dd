import { hostname } from "node:os";
import type { DatabaseTransactionConnection } from "slonik";
import { listLastPasses } from "../../db/perpetualWork.sql.ts";
import { SERVICE } from "../accounts/audit.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { deploymentNameOf, RESTORE_HOLD, UNDECIDED_COPY } from "./deployment.rules.ts";
import type { Hold } from "./deployment.rules.ts";
import {
  changeDeployment,
  countAskedUsage,
  identifyDeployment,
  lockDeployment,
  readDeployment,
} from "./deployment.sql.ts";
import type { Deployment } from "./deployment.sql.ts";
import { askAboutUnsent } from "./meterEvents.sql.ts";
import { LONGEST_USAGE_LAG_MS } from "./usage.rules.ts";
import { requestSubscriptionReads } from "./processorEvents/processorEvents.sql.ts";
import { readDatabaseTime } from "./readDatabaseTime.ts";
import { updateEndpoints } from "../events/endpoints.sql.ts";
import type { Context } from "../../runtime/context.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";

/**
 * Holds all usage: nothing is sealed or sent. What has begun, sealing included, may still end.
 * @returns the hold: the earlier one if usage is held already, because any release ends it
 */
export const holdUsage = (
  { db, clock, actor }: OperatorContext,
  { reason, by }: { readonly reason: string; readonly by: string },
): Promise<Hold> =>
  db.transaction(async (transaction) => {
    const { hold } = await lockDeployment(transaction);
    if (hold) {
      return hold;
    }
    const recorded = { at: await readDatabaseTime(transaction, clock), reason, by };
    await changeDeployment(transaction, { hold: recorded });
    await recordAction(transaction, actor, recorded.at, { action: "usage.hold" });
    return recorded;
  });

/**
 * Records the server of a new deployment, with an id that no copy of the empty database has. If the server has changed, usage
 * is held from now on, because a history may be lost in which it was sent.
 * @returns the hold, or null if usage is not held
 */
export const guardUsage = async ({ db, clock }: Context): Promise<Hold | null> => {
  const deployment = await readDeployment(db);
  if (deployment.isIdentified && !deployment.isHoldMissing) {
    return deployment.hold;
  }
  return db.transaction(async (transaction) => {
    const current = await lockDeployment(transaction);
    if (!current.isIdentified) {
      await identifyDeployment(transaction);
      return current.hold;
    }
    if (!current.isHoldMissing) {
      return current.hold;
    }
    const now = await readDatabaseTime(transaction, clock);
    const hold = { ...RESTORE_HOLD, at: now };
    await changeDeployment(transaction, { hold, doubtedUntil: now });
    // The history that is lost may have read changes of them.
    await requestSubscriptionReads(transaction, now);
    await recordAction(transaction, SERVICE, now, {
      action: "usage.hold",
      details: { reason: hold.reason },
    });
    return hold;
  });
};

/** Workers record every four seconds that they look for work. */
const IN_USE_SECONDS = 10;

/** @throws DomainError request_invalid if programs use the database, or it does not look like a copy */
const requireUnusedCopy = async (
  transaction: DatabaseTransactionConnection,
  hold: Hold | null,
): Promise<void> => {
  if (hold === null) {
    throw invalidRequest(
      "this database is on the server that it was recorded on, so it does not look like a copy. If it is one, such as that of a disk, run `impact usage hold` first",
    );
  }
  const passes = await listLastPasses(transaction);
  if (passes.some(({ hasPassed, ageSeconds }) => hasPassed && ageSeconds < IN_USE_SECONDS)) {
    throw invalidRequest(
      "a worker uses this database, or did so when it was copied; stop the API and the workers, and repeat the command after ten seconds",
    );
  }
};

/**
 * Makes a copy of a database a deployment of its own. Its webhook endpoints are disabled, because they are the servers of the
 * original's clients, and it never bills through the original's live Stripe account.
 * @returns the names of both deployments in Temporal
 */
const separateCopy = async (
  transaction: DatabaseTransactionConnection,
  original: Deployment,
  now: Date,
) => {
  const id = await identifyDeployment(transaction);
  await changeDeployment(transaction, { separatedAt: now, processor: null });
  const disabling = { disabledAt: now, disabledReason: "requested" } as const;
  const { length } = await updateEndpoints(transaction, { areEnabled: true }, disabling);
  const [name, originalName] = [deploymentNameOf({ id }), deploymentNameOf(original)];
  return { name, originalName, disabledEndpoints: length };
};

/**
 * What an operator knows of a database whose hold ends.
 * - `nothing_lost`: the old database has sent nothing that this one does not know of.
 * - `restored`: a restore went unnoticed: the data folder was put back in its place, or rows were.
 * - `copy`: the original stays in use, and sends what was pending in live mode.
 */
export type KnownHistory = "nothing_lost" | "restored" | "copy";

/**
 * Ends a hold. After a restore, a promotion or a copy, this database replaces the old one from now on. Usage that it does not
 * know to be delivered may have been sent in the history that was lost: the senders ask Stripe about it before they send it,
 * once the sums show everything from before the hold. Failed usage is asked about when it is retried.
 * @param options.history null: what was noticed counts
 * @throws DomainError request_invalid if a copy is in use, or does not look like one, or a restore is named without a hold
 */
export const resumeUsage = (
  { db, clock, actor }: OperatorContext,
  {
    history = null,
    isDryRun = false,
  }: { readonly history?: KnownHistory | null; readonly isDryRun?: boolean } = {},
) =>
  db.transaction(async (transaction) => {
    const deployment = await lockDeployment(transaction);
    const { hold, doubtedUntil } = deployment;
    if (history === "copy") {
      await requireUnusedCopy(transaction, hold);
    }
    if (!hold && history === "restored") {
      throw invalidRequest(
        "usage is not held, so nothing would be asked about; hold it first: impact usage hold",
      );
    }
    if (!hold) {
      return { hold, doubtedUntil: null, copy: null };
    }
    const now = await readDatabaseTime(transaction, clock);
    const { at } = hold;
    // A hold after a restore begins with the doubt; an operator's later one does not renew it.
    const noticedAt = at && doubtedUntil && doubtedUntil >= at ? doubtedUntil : null;
    const restoredAt = history === "restored" ? at : null;
    const lostUntil = at === null ? now : (noticedAt ?? restoredAt);
    const until = history === "nothing_lost" || history === "copy" ? null : lostUntil;
    if (isDryRun) {
      return { hold, doubtedUntil: until, copy: null };
    }
    const copy = history === "copy" ? await separateCopy(transaction, deployment, now) : null;
    const isNew = at === null || until !== noticedAt;
    await changeDeployment(transaction, { hold: null, ...(isNew && { doubtedUntil: until }) });
    if (until !== null) {
      await askAboutUnsent(transaction, until);
    }
    await requestSubscriptionReads(transaction, now);
    await recordAction(transaction, actor, now, {
      action: "usage.resume",
      details: { hold, doubtedUntil: until, history, copy },
    });
    return {
      hold,
      /** Stripe is asked about usage from before, which may have been sent in a history that was lost. Null if none was lost. */
      doubtedUntil: until,
      /** Null unless the database is a copy that is used beside the original. */
      copy,
    };
  });

export type ResumedUsage = Awaited<ReturnType<typeof resumeUsage>>;

/** Returns what the last restore or promotion has left to do; null if there was none, or nothing was lost in it. */
export const readRestoreProgress = async ({ db }: Context) => {
  const { doubtedUntil, processor, hold } = await readDeployment(db);
  if (doubtedUntil === null || processor?.name === "ledger") {
    return null;
  }
  const { events, unsealedFacts, lastSentAt, lastRetryAt } = await countAskedUsage(db);
  const sentMs = Math.max(doubtedUntil.getTime(), lastSentAt?.getTime() ?? 0);
  const completeMs = Math.max(sentMs + LONGEST_USAGE_LAG_MS, lastRetryAt?.getTime() ?? 0);
  return {
    /** When it was noticed. Usage from before may have been sent in the history that was lost. */
    noticedAt: doubtedUntil,
    isHeld: hold !== null,
    /** The events about which Stripe is asked, and the facts of which no event is sealed yet. */
    asked: { events, unsealedFacts },
    /** When the sums show all that was sent before, so that a comparison is complete. */
    sumsCompleteAt: new Date(completeMs),
  };
};

export type RestoreProgress = NonNullable<Awaited<ReturnType<typeof readRestoreProgress>>>;

/**
 * Returns the deployment's name in Temporal, or null if the database was restored, promoted or copied and no operator has
 * decided yet whether it replaces the old one: the old one's programs may use the same workflows and task queues.
 */
export const findDeploymentName = async (context: Context): Promise<string | null> => {
  await guardUsage(context);
  const deployment = await readDeployment(context.db);
  return deployment.isServerChanged ? null : deploymentNameOf(deployment);
};

/** @throws DomainError request_invalid if the deployment has no name because of a restore, promotion or copy */
export const getDeploymentName = async (context: Context): Promise<string> => {
  const name = await findDeploymentName(context);
  if (name === null) {
    throw invalidRequest(UNDECIDED_COPY);
  }
  return name;
};

/** Returns a function that returns the deployment's name. A known name stays when a standby is promoted meanwhile. */
export const createDeploymentName = async (context: Context): Promise<() => Promise<string>> => {
  let known = await findDeploymentName(context);
  return async () => (known ??= await getDeploymentName(context));
};

export const workerIdentity = ({ currentServer }: Deployment): string =>
  `${process.pid}@${hostname()}/${currentServer}`;

const SERVER = /\((?<server>\d+),(?<timeline>[0-9A-F]{8}),(?<database>\d+,\d+)\)$/u;

/**
 * Returns whether a worker uses another database than the given one. A worker goes on when its database is promoted, so an
 * earlier timeline is that of the same database; a later one is that of a copy.
 */
export const usesOtherDatabase = (identity: string, { currentServer }: Deployment): boolean => {
  const theirs = SERVER.exec(identity)?.groups;
  const ours = SERVER.exec(currentServer)?.groups;
  return (
    theirs !== undefined &&
    (theirs["server"] !== ours?.["server"] ||
      theirs["database"] !== ours?.["database"] ||
      (theirs["timeline"] ?? "") > (ours?.["timeline"] ?? ""))
  );
};
