import { systemClock } from "../../runtime/clock.ts";
import { getDeploymentName } from "../../modules/billing/holdUsage.ts";
import type { DatabaseTest } from "../support/database.ts";
import { openNamespace, TEMPORAL_ADDRESS } from "../support/programs.ts";
import { impactOf } from "./runImpact.ts";

/** Opens a Temporal namespace for the deployment of the test's database. */
export const setUp = async (t: DatabaseTest) => {
  const { namespace, client } = await openNamespace(t);
  const settings = {
    DATABASE_URL: t.context.databaseUrl,
    TEMPORAL_ADDRESS,
    TEMPORAL_NAMESPACE: namespace,
  };
  const deployment = await getDeploymentName({ db: t.context.db, clock: systemClock });
  const impact = impactOf(t, { env: settings });
  return { client, deployment, settings, impact };
};
