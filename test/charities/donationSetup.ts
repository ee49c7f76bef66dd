import type { ExecutionContext, TestFn } from "ava";
import { Client, Connection } from "@temporalio/client";
import { DefaultLogger, NativeConnection, Runtime, Worker } from "@temporalio/worker";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { createDonationActivities } from "../../activities/createDonationActivities.ts";
import { createCharityValidator } from "../../api/charities/createCharityValidator.ts";
import { updateAccount } from "../../db/accounts/accounts.ts";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../domain/clock.ts";
import type { Charities, CharitySettings } from "../../providers/charities/createCharities.ts";
import { createCharities } from "../../providers/charities/createCharities.ts";
import type { ValidateCharity } from "../../services/charities/confirmCharity.ts";
import { getDeploymentName } from "../../services/billing/deploymentName.ts";
import { bundleWorkflows } from "../../worker/bundleWorkflows.ts";
import { interactiveQueue } from "../../workflows/taskQueues.ts";
import type { Call, StandaloneApiOptions } from "../api/startStandaloneApi.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import type { DatabaseContext } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { registerNamespace, TEMPORAL_ADDRESS } from "../support/programs.ts";
import { unreachableTemporal } from "../support/unreachableTemporal.ts";
import type { ProviderDouble } from "./startProviderDouble.ts";
import { startProviderDouble } from "./startProviderDouble.ts";

/** Two attempts fit into the five seconds of the activity, and a busy machine does not look like a silent provider. */
const PROVIDER_TIMEOUT_MS = 1800;
/** Only the test's own time limit ends a slow validation. */
const VALIDATION_TIMEOUT_MS = 60_000;

/** Settings with all remote providers at one double. */
export const settingsOf = (
  { url }: ProviderDouble,
  everyorgKey = "everyorg-key",
): CharitySettings => ({
  everyorg: { apiKey: everyorgKey, apiBase: `${url}/everyorg` },
  change: { publicKey: "change-public", secretKey: "change-secret", apiBase: `${url}/change` },
  pledge: { apiKey: "pledge-key", apiBase: `${url}/pledge` },
});

const ledgerRow = z.strictObject({
  donations: z.bigint().transform(Number),
  count: z.bigint().transform(Number),
  cents: z.bigint().transform(Number),
});

/** An account's donations, counted from the records and by the totals. */
export const readDonationLedger = (
  db: DatabasePool,
  accountId: string,
): Promise<Readonly<z.output<typeof ledgerRow>>> =>
  db.one(sql.type(ledgerRow)`
    SELECT
      (SELECT count(*) FROM donation WHERE account_id = ${accountId}) AS donations,
      (
        SELECT coalesce(sum(count), 0)::bigint
        FROM donation_total
        WHERE account_id = ${accountId} AND period = 'all'
      ) AS count,
      (
        SELECT coalesce(sum(amount_cents), 0)::bigint
        FROM donation_total
        WHERE account_id = ${accountId} AND period = 'all'
      ) AS cents
  `);

export const NOTHING_RECORDED = { donations: 0, count: 0, cents: 0 };

export type DonationApi = {
  readonly call: Call;
  readonly accountId: string;
  readonly live: string;
  readonly test: string;
  readonly ledger: () => ReturnType<typeof readDonationLedger>;
};

/** An organization and an API whose Temporal cannot be reached, unless `validateCharity` is given. */
export const startDonationApi = async (
  t: ExecutionContext<DatabaseContext>,
  options: Partial<StandaloneApiOptions> = {},
): Promise<DonationApi> => {
  const { db } = t.context;
  const { call } = await startStandaloneApi(t, {
    temporal: unreachableTemporal(),
    ...options,
    db,
  });
  const { id, apiKeyProd, apiKeyTest } = await createTestOrganization(db, {
    clock: options.clock ?? systemClock,
  });
  return {
    call,
    accountId: id,
    live: apiKeyProd,
    test: apiKeyTest,
    ledger: () => readDonationLedger(db, id),
  };
};

export type WorkflowContext = DatabaseContext & {
  readonly provider: ProviderDouble;
  readonly charities: Charities;
  readonly temporal: Client;
  /** Returns the deployment's name in Temporal. */
  readonly getDeployment: () => Promise<string>;
  readonly validateCharity: ValidateCharity;
};

/** A test file with Temporal, a worker for donations and a double of the remote providers. */
export const testWithWorkflows = (): TestFn<WorkflowContext> => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- ava types the context only by a cast.
  const test = testWithDatabase() as unknown as TestFn<WorkflowContext>;
  const closing: (() => Promise<unknown>)[] = [];

  test.serial.before(async (t) => {
    const { db } = t.context;
    const provider = await startProviderDouble();
    closing.push(provider.close);
    const charities = createCharities({
      db,
      clock: systemClock,
      settings: settingsOf(provider),
      startTimeout: () => AbortSignal.timeout(PROVIDER_TIMEOUT_MS),
    });
    const connection = await Connection.connect({ address: TEMPORAL_ADDRESS });
    closing.push(() => connection.close());
    const namespace = await registerNamespace(connection);
    const temporal = new Client({ connection, namespace });
    const deployment = await getDeploymentName({ db, clock: systemClock });
    const getDeployment = (): Promise<string> => Promise.resolve(deployment);
    Runtime.install({ logger: new DefaultLogger("WARN") });
    const native = await NativeConnection.connect({ address: TEMPORAL_ADDRESS });
    const worker = await Worker.create({
      connection: native,
      namespace,
      taskQueue: interactiveQueue(deployment),
      workflowBundle: await bundleWorkflows(process.env["WORKFLOW_BUNDLE"]),
      activities: createDonationActivities({ charities }),
    });
    const running = worker.run();
    closing.unshift(async () => {
      worker.shutdown();
      await running;
      await native.close();
    });
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

/** A charity of the catalogue. */
export const RED_CROSS = {
  ein: "53-0196605",
  nonprofit_id: "irs_530196605",
  name: "American Red Cross",
};
export const EIN = RED_CROSS.ein;

/** Makes the double find a charity of Every.org by its slug and by its EIN. */
export const addEveryOrgCharity = (
  { responses }: ProviderDouble,
  slug: string,
  ein: string,
): void => {
  const nonprofit = { primarySlug: slug, name: `The ${slug}`, ein, isDisbursable: true };
  responses.set(`/everyorg/nonprofit/${slug}`, { data: { nonprofit } });
  responses.set(`/everyorg/nonprofit/${ein}`, { data: { nonprofit } });
};

/** An organization that uses Every.org, and an API that validates charities through their workflow. */
export const startEveryOrgApi = async (
  t: ExecutionContext<WorkflowContext>,
  options: Partial<StandaloneApiOptions> = {},
): Promise<DonationApi> => {
  const { db, charities, validateCharity } = t.context;
  const api = await startDonationApi(t, { charities, validateCharity, ...options });
  await updateAccount(db, api.accountId, { charityProvider: "everyorg" });
  return api;
};
