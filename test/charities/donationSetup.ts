import type { ExecutionContext, TestFn } from "ava";
import { Client, Connection } from "@temporalio/client";
import { DefaultLogger, NativeConnection, Runtime, Worker } from "@temporalio/worker";
import { createDonationActivities } from "../../activities/createDonationActivities.ts";
import { createDonationValidator } from "../../api/standalone/charities/validateDonation.ts";
import type { ValidateDonation } from "../../api/standalone/charities/validateDonation.ts";
import { systemClock } from "../../domain/clock.ts";
import type { DonationOutcome } from "../../domain/donations.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import type { Charities, CharitySettings } from "../../providers/charities/createCharities.ts";
import { createCharities } from "../../providers/charities/createCharities.ts";
import { checkDonation } from "../../services/checkDonation.ts";
import { recordDonation } from "../../services/recordDonation.ts";
import { bundleWorkflows } from "../../worker/runWorker.ts";
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
export const decideHere =
  (deps: Parameters<typeof checkDonation>[0] & Parameters<typeof recordDonation>[0]) =>
  async (id: string): Promise<DonationOutcome> => {
    const checked = await checkDonation(deps, id, new AbortController().signal);
    return checked.kind === "valid" ? recordDonation(deps, id, checked) : checked;
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
