import type { ExecutionContext } from "ava";
import type { Client } from "@temporalio/client";
import { z } from "zod";
import { sumLedgerUnits } from "../support/accountSums.ts";
import { updateAccount } from "../../modules/accounts/accounts.sql.ts";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import { addEveryOrgCharity, readDonationLedger } from "../charities/donations/donationSetup.ts";
import { startProviderDouble } from "../charities/startProviderDouble.ts";
import { copyDatabase, openTestPool, testWithDatabase } from "../support/database.ts";
import { createTestOrganization, freshEin } from "../support/factories.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";

const test = testWithDatabase();

const ROUNDS = 4;

const plantReply = z.object({ tree_details: z.array(z.object({ id: z.uuid() })) });

/** Starts the API and a worker of a deployment with a database and a charity provider of its own. */
const deploy = async (t: ExecutionContext, namespace: string, databaseUrl: string) => {
  const provider = await startProviderDouble(t);
  const db = await openTestPool(t, databaseUrl, 4);
  const { id: accountId, apiKeyProd, apiKeyTest } = await createTestOrganization(db);
  await updateAccount(db, accountId, { charityProvider: "everyorg" });
  const settings = {
    DATABASE_URL: databaseUrl,
    TEMPORAL_NAMESPACE: namespace,
    EVERYORG_API_KEY: "everyorg-key",
    CHARITY_API_BASE: provider.url,
    PLANTING_ORDER_INTERVAL_SECONDS: "1",
    SIMULATED_PLANTING_SECONDS: "1",
  };
  const api = await startProgram(t, "api/main.ts", settings);
  await startProgram(t, "worker/main.ts", settings);
  const post = (key: string, path: string, body: unknown): Promise<Response> =>
    api.post(path, body, { authorization: key });
  return {
    donate: async (): Promise<void> => {
      const ein = freshEin();
      addEveryOrgCharity(provider, `charity-${ein}`, ein);
      const donation = { ein, amount_cents: 100, idempotency_key: ein };
      let response = await post(apiKeyTest, "/charities/donate", donation);
      // On a busy machine a validation may take too long. A client repeats the request then.
      while (response.status === 500) {
        response = await post(apiKeyTest, "/charities/donate", donation);
      }
      t.is(response.status, 200, await response.text());
    },
    /** Registers three trees and refunds one. */
    plant: async (): Promise<void> => {
      const planted = plantReply.parse(
        await (await post(apiKeyProd, "/plant/trees", { count: 3 })).json(),
      );
      const refunded = await post(apiKeyProd, "/refund/trees", {
        id: planted.tree_details[0]?.id,
        count: 1,
      });
      t.is(refunded.status, 200);
    },
    countDonations: async () => (await readDonationLedger(db, accountId)).donations,
    billed: () => sumLedgerUnits(db, { accountId, mode: "live", kind: "tree" }),
    plantedTrees: async (): Promise<number> => {
      const orders = await listPlantingOrders(db, {
        accountId,
        stage: "planted_and_verified",
        limit: 100,
      });
      return orders.reduce((sum, { treeCount }) => sum + treeCount, 0);
    },
  };
};

/** Returns the ids of workflows that ended in another way than by completing. */
const listFailed = async (client: Client): Promise<readonly string[]> => {
  const failed: string[] = [];
  for await (const { workflowId } of client.workflow.list({
    query: "ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut')",
  })) {
    failed.push(workflowId);
  }
  return failed;
};

test("two deployments in one namespace do only their own donations, planting and billing", async (t) => {
  const { namespace, client } = await openNamespace(t);
  const deployments = [
    await deploy(t, namespace, t.context.databaseUrl),
    await deploy(t, namespace, await copyDatabase(t)),
  ];

  for (let round = 0; round < ROUNDS; round += 1) {
    for (const { donate, plant } of deployments) {
      await donate();
      await plant();
    }
  }

  for (const { countDonations, billed, plantedTrees } of deployments) {
    await eventually(async () => (await billed()) === 2 * ROUNDS);
    await eventually(async () => (await plantedTrees()) >= 2 * ROUNDS);
    t.is(await countDonations(), ROUNDS);
  }
  const refunds = `WorkflowType = 'refund' AND ExecutionStatus = 'Completed'`;
  await eventually(async () => (await client.workflow.count(refunds)).count === 2 * ROUNDS);
  t.deepEqual(await listFailed(client), []);
});
