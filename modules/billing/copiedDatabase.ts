import {
  lockDeployment,
  recordServer,
  forgetProcessor,
  recordHold,
  recordSeparation,
  renewDeploymentId,
} from "./deployment.sql.ts";
import type { Deployment } from "./deployment.sql.ts";
import { deploymentNameOf } from "./deployment.rules.ts";
import type { Hold } from "./deployment.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { readDatabaseTime } from "./readDatabaseTime.ts";
import type { DatabaseTransactionConnection } from "slonik";
import { listShardStatuses } from "../../db/shards.sql.ts";
import { disableAllEndpoints } from "../events/endpoints.sql.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";

/** The dispatcher looks for work every second. */
const IN_USE_SECONDS = 10;

/** @throws DomainError request_invalid if the database is in use, or does not look like a copy and is not known as one */
const requireUnusedCopy = async (
  transaction: DatabaseTransactionConnection,
  { isServerChanged }: Deployment,
  isKnownCopy: boolean,
): Promise<void> => {
  if (!isServerChanged && !isKnownCopy) {
    throw invalidRequest(
      "this database is on the server that it was recorded on, so it does not look like a copy. If it is one, such as that of a disk or one that was released, repeat the command with --is-copy",
    );
  }
  const dispatchers = await listShardStatuses(transaction, "dispatcher");
  if (dispatchers.some(({ hasPassed, ageSeconds }) => hasPassed && ageSeconds < IN_USE_SECONDS)) {
    throw invalidRequest(
      "a worker uses this database, or did so when it was copied; stop the API and the workers, and repeat the command after ten seconds",
    );
  }
};

/**
 * Makes a copy of a database a deployment of its own, with an id and thus with workflows of its own. Its usage is held:
 * what was pending is sent by the original. Its webhook endpoints are disabled, because they are the servers of the
 * original's clients. Its processor is forgotten, and it never bills through the original's live Stripe account.
 * @returns the names in Temporal, the hold, and how many endpoints were disabled
 * @throws DomainError request_invalid
 */
export const separateDeployment = (
  { db, clock, actor }: OperatorContext,
  { isKnownCopy, by }: { readonly isKnownCopy: boolean; readonly by: string },
): Promise<{
  readonly name: string;
  readonly originalName: string;
  readonly hold: Hold;
  readonly disabledEndpoints: number;
}> =>
  db.transaction(async (transaction) => {
    const deployment = await lockDeployment(transaction);
    await requireUnusedCopy(transaction, deployment, isKnownCopy);
    const id = await renewDeploymentId(transaction);
    await forgetProcessor(transaction);
    await recordServer(transaction);
    const originalName = deploymentNameOf(deployment);
    const now = await readDatabaseTime(transaction, clock);
    const hold = { at: now, reason: `the database is a copy of ${originalName}`, by };
    await recordHold(transaction, hold);
    await recordSeparation(transaction, now);
    const disabledEndpoints = await disableAllEndpoints(transaction, now);
    await recordAction(transaction, actor, now, {
      action: "deployment.separate",
      details: {
        id,
        originalId: deployment.id,
        disabledWebhookEndpoints: disabledEndpoints,
      },
    });
    return { name: deploymentNameOf({ id }), originalName, hold, disabledEndpoints };
  });
