import type { ExecutionContext, TestFn } from "ava";
import { Client, Connection } from "@temporalio/client";
import { DefaultLogger, NativeConnection, Runtime, Worker } from "@temporalio/worker";
import { createDonationActivities } from "../../activities/createDonationActivities.ts";
import type { DonationActivityDependencies } from "../../activities/createDonationActivities.ts";
import { z } from "zod";
import { createDonationValidator } from "../../api/standalone/charities/createDonationValidator.ts";
import { updateAccount } from "../../db/accounts/accounts.ts";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../domain/clock.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import type { Charities, CharitySettings } from "../../providers/charities/createCharities.ts";
import { createCharities } from "../../providers/charities/createCharities.ts";
import { checkDonation } from "../../services/charities/checkDonation.ts";
import type { ValidateDonation } from "../../services/charities/donate.ts";
import { bundleWorkflows } from "../../worker/runWorker.ts";
import { decideDonation } from "../../workflows/donation.ts";
import { INTERACTIVE_QUEUE } from "../../workflows/taskQueues.ts";
import type { Call } from "../api/startStandaloneApi.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import type { DatabaseContext } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { CATALOGUE_ONLY, createTestOrganization } from "../support/factories.ts";
import { registerNamespace, TEMPORAL_ADDRESS } from "../support/programs.ts";
import type { ProviderDouble } from "./startProviderDouble.ts";
import { startProviderDouble } from "./startProviderDouble.ts";

/** As in production: less, and a busy machine would look like a silent provider. */
const PATIENCE_MS = 1500;

/** All remote providers at one double. */
export const settingsOf = (
  { url }: ProviderDouble,
  everyorgKey = "everyorg-key",
): CharitySettings => ({
  everyorg: { apiKey: everyorgKey, apiBase: `${url}/everyorg` },
  change: { publicKey: "change-public", secretKey: "change-secret", apiBase: `${url}/change` },
  pledge: { apiKey: "pledge-key", apiBase: `${url}/pledge` },
});

/** Decides upon donations as the workflow does, in this process. */
export const decideHere = (deps: DonationActivityDependencies): ValidateDonation => {
  const activities = {
    ...createDonationActivities(deps),
    // That of the worker is cancelled with its activity, and there is none here.
    checkDonation: (id: string) => checkDonation(deps, id, new AbortController().signal),
  };
  return (id) => decideDonation(activities, id);
};

export type DonationApi = {
  readonly call: Call;
  readonly accountId: string;
  readonly live: string;
  readonly test: string;
};

/** An organization and an API that decides upon donations without Temporal. */
export const startDonationApi = async (
  t: ExecutionContext<DatabaseContext>,
  options: Partial<Parameters<typeof startStandaloneApi>[1]> = {},
): Promise<DonationApi> => {
  const { db } = t.context;
  const clock = options.clock ?? systemClock;
  const billing = createBilling({ db, stripe: null });
  const charities = createCharities({
    db,
    clock,
    settings: CATALOGUE_ONLY,
  });
  const { call } = await startStandaloneApi(t, {
    validateDonation: decideHere({ db, clock, billing, charities }),
    ...options,
    db,
  });
  const { id, apiKeyProd, apiKeyTest } = await createTestOrganization(db, { clock });
  return { call, accountId: id, live: apiKeyProd, test: apiKeyTest };
};

export type WorkflowContext = DatabaseContext & {
  readonly provider: ProviderDouble;
  readonly charities: Charities;
  readonly temporal: Client;
  readonly validateDonation: ValidateDonation;
};

/** A test file with Temporal, a worker on donations and a double of the remote providers. */
export const testWithWorkflows = (): TestFn<WorkflowContext> => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- ava types the context only by a cast.
  const test = testWithDatabase() as unknown as TestFn<WorkflowContext>;
  const closing: (() => Promise<unknown>)[] = [];

  test.serial.before(async (t) => {
    const { db, databaseUrl } = t.context;
    const provider = await startProviderDouble();
    closing.push(provider.close);
    const charities = createCharities({
      db,
      clock: systemClock,
      settings: settingsOf(provider),
      timeoutMs: PATIENCE_MS,
    });
    const connection = await Connection.connect({ address: TEMPORAL_ADDRESS });
    closing.push(() => connection.close());
    const namespace = await registerNamespace(connection);
    const temporal = new Client({ connection, namespace });
    Runtime.install({ logger: new DefaultLogger("WARN") });
    const native = await NativeConnection.connect({ address: TEMPORAL_ADDRESS });
    const worker = await Worker.create({
      connection: native,
      namespace,
      taskQueue: INTERACTIVE_QUEUE,
      workflowBundle: await bundleWorkflows(),
      activities: createDonationActivities({
        db,
        clock: systemClock,
        billing: createBilling({ db, stripe: null }),
        charities,
      }),
    });
    const running = worker.run();
    closing.unshift(async () => {
      worker.shutdown();
      await running;
      await native.close();
    });
    t.context = {
      db,
      databaseUrl,
      provider,
      charities,
      temporal,
      validateDonation: createDonationValidator(temporal),
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

const booksRow = z.strictObject({
  donations: z.bigint().transform(Number),
  waiting: z.bigint().transform(Number),
  count: z.bigint().transform(Number),
  cents: z.bigint().transform(Number),
});

type DonationScene = DonationApi & {
  /** What stands in the database for the organization. */
  readonly books: () => Promise<Readonly<z.output<typeof booksRow>>>;
};

/** An organization whose charities a provider knows, and an API that has donations decided upon by their workflow. */
export const stageDonations = async (
  t: ExecutionContext<WorkflowContext>,
  provider: "catalogue" | "everyorg" = "catalogue",
): Promise<DonationScene> => {
  const { db, charities, validateDonation } = t.context;
  const { call } = await startStandaloneApi(t, {
    db,
    charities,
    validateDonation,
  });
  const { id: accountId, apiKeyProd, apiKeyTest } = await createTestOrganization(db);
  await updateAccount(db, accountId, { charityProvider: provider });
  return {
    call,
    accountId,
    live: apiKeyProd,
    test: apiKeyTest,
    books: () =>
      db.one(sql.type(booksRow)`
        SELECT
          (SELECT count(*) FROM donation WHERE account_id = ${accountId}) AS donations,
          (SELECT count(*) FROM donation_request WHERE account_id = ${accountId}) AS waiting,
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
      `),
  };
};
