import type { ExecutionContext, TestFn } from "ava";
import type { Client } from "@temporalio/client";
import { createDonationActivities } from "../../../activities/createDonationActivities.ts";
import { createCharityValidator } from "../../../api/endpoints/createCharityValidator.ts";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import type { Charities } from "../../../modules/charities/createCharities.ts";
import { createCharities } from "../../../modules/charities/createCharities.ts";
import { getDeploymentName } from "../../../modules/billing/holdUsage.ts";
import { interactiveQueue } from "../../../runtime/temporalNames.rules.ts";
import type { ValidateCharity } from "../../../modules/charities/context.ts";
import type { StandaloneApiOptions } from "../../api/startStandaloneApi.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { testWithDatabase } from "../../support/database.ts";
import { startWorker } from "../../workflows/startWorker.ts";
import type { ProviderDouble } from "../startProviderDouble.ts";
import { startProviderDouble } from "../startProviderDouble.ts";
import { configOf, startDonationApi } from "./donationSetup.ts";

/** Two attempts fit into the five seconds of the activity, and a busy machine does not look like a silent provider. */
const PROVIDER_TIMEOUT_MS = 1800;
/** Only the test's own time limit ends a slow validation. */
const VALIDATION_TIMEOUT_MS = 60_000;

export type WorkflowContext = DatabaseContext & {
  readonly provider: ProviderDouble;
  readonly charities: Charities;
  readonly temporal: Client;
  readonly getDeployment: () => Promise<string>;
  readonly validateCharity: ValidateCharity;
};

/** A test file with Temporal, a worker for donations and a double of the remote providers. */
export const testWithWorkflows = (): TestFn<WorkflowContext> => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- ava types the context only by a cast.
  const test = testWithDatabase() as unknown as TestFn<WorkflowContext>;
  const closing: (() => unknown)[] = [];
  const file = { teardown: (close: () => unknown) => void closing.unshift(close) };

  test.serial.before(async (t) => {
    const { db } = t.context;
    const provider = await startProviderDouble(file);
    const charities = createCharities({
      db,
      clock: systemClock,
      config: configOf(provider),
      startTimeout: () => AbortSignal.timeout(PROVIDER_TIMEOUT_MS),
    });
    const deployment = await getDeploymentName({ db, clock: systemClock });
    const getDeployment = (): Promise<string> => Promise.resolve(deployment);
    const activities = createDonationActivities({ charities });
    const temporal = await startWorker(file, activities, interactiveQueue(deployment));
    t.context = {
      ...t.context,
      provider,
      charities,
      temporal,
      getDeployment,
      validateCharity: createCharityValidator(temporal, getDeployment, VALIDATION_TIMEOUT_MS),
    };
  });

  test.after.always(async () => {
    for (const close of closing) {
      await close();
    }
  });

  return test;
};

/** An organization that uses Every.org, and an API that validates charities through their workflow. */
export const startEveryOrgApi = async (
  t: ExecutionContext<WorkflowContext>,
  options: Partial<StandaloneApiOptions> = {},
) => {
  const { db, charities, validateCharity } = t.context;
  const api = await startDonationApi(t, { charities, validateCharity, ...options });
  await updateAccount(db, api.accountId, { charityProvider: "everyorg" });
  return api;
};
