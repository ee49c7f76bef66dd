import { lockDeployment, recordServer } from "./deployment.sql.ts";
import { deploymentNameOf, isHoldMissing } from "./deployment.rules.ts";
import type { Hold } from "./deployment.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { beginHoldAnew } from "./holdUsage.ts";
import { readDatabaseTime } from "./readDatabaseTime.ts";

/**
 * Records that a database that was restored, promoted or copied replaces the old one, so its programs go on with the
 * deployment's workflows. Usage stays held, because the old database may have sent some of it.
 * @returns the deployment's name in Temporal, the hold, and whether the database had changed; if not, nothing was recorded
 */
export const takeOverDeployment = ({
  db,
  clock,
  actor,
}: OperatorContext): Promise<{
  readonly name: string;
  readonly hold: Hold | null;
  readonly hadChanged: boolean;
}> =>
  db.transaction(async (transaction) => {
    const deployment = await lockDeployment(transaction);
    const name = deploymentNameOf(deployment);
    if (!deployment.isServerChanged) {
      return { name, hold: deployment.hold, hadChanged: false };
    }
    const now = await readDatabaseTime(transaction, clock);
    const hold = isHoldMissing(deployment)
      ? await beginHoldAnew(transaction, deployment, now)
      : deployment.hold;
    await recordServer(transaction);
    await recordAction(transaction, actor, now, {
      action: "deployment.take_over",
      details: { name, hold },
    });
    return { name, hold, hadChanged: true };
  });
