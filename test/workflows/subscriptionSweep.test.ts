import { ApplicationFailure } from "@temporalio/common";
import { createBillingActivities } from "../../activities/createBillingActivities.ts";
import { createRetentionActivities } from "../../activities/createRetentionActivities.ts";
import { addToTestRecordCounts, readTestRecordCount } from "../../db/accounts/testRecordCounts.ts";
import { SERVICE } from "../../domain/accounts/audit.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import { issueKey } from "../../services/accounts/issueKey.ts";
import { drainUsage } from "../../services/billing/sending/drainUsage.ts";
import { subscriptionSweep } from "../../workflows/subscriptionSweep.ts";
import { startDonationApi } from "../charities/donations/donationSetup.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestGuard } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { startWorker } from "./startWorker.ts";

const test = testWithDatabase();
const NEVER = new AbortController().signal;

test("the nightly workflow deletes, erases and records whatever is old enough, once", async (t) => {
  const { db } = t.context;
  const clock = createMovableClock("2026-01-10T12:00:00.000Z");
  const billing = createBilling({ db, stripe: null });
  const guard = createTestGuard(t, { db, clock });
  const { call, accountId, test: key } = await startDonationApi(t, { clock, guard });
  const { get, post } = await startStoreApi(t, { db, clock, guard });
  const store = await createTestStore(db, { balanceCents: 1000 });
  const planted = await call("POST", "/plant/trees", { key, body: { count: 4 } });
  t.is(planted.status, 200);
  const donation = { amount_cents: 300, ein: "530196605" };
  t.is((await call("POST", "/charities/donate", { key, body: donation })).status, 200);
  const order = { trees: 2, customer_name: "Ann Lee" };
  for (const headers of [store.test, store.live]) {
    await post("/app/api/plant", { ...headers, "Idempotency-Key": "order-1" }, order);
  }
  await guard.store();
  // As a process that was killed would leave it.
  await addToTestRecordCounts(db, [{ accountId, count: 7 }]);
  await issueKey({ db, clock, actor: SERVICE }, { id: accountId, type: "organization" }, "live", {
    name: "trial",
    scope: "read",
    expiresAt: new Date("2026-02-01T00:00:00.000Z"),
  });
  clock.set("2026-01-10T12:05:00.000Z");
  const stream = { accountId, mode: "test", meter: "tree" } as const;
  await drainUsage({ db, clock, billing }, stream, { signal: NEVER, onResult: () => undefined });
  clock.set("2026-06-01T02:00:00.000Z");

  const client = await startWorker(t, {
    ...createBillingActivities({
      db,
      clock,
      billing,
      observeSend: () => undefined,
      observeRejection: () => undefined,
      observeFailedEvent: () => undefined,
      observeUnreadSubscription: () => undefined,
      observeDrift: () => undefined,
    }),
    ...createRetentionActivities({
      db,
      clock,
      retention: { processorEventDays: 90, reconciliationDays: 400 },
      testDataDays: 90,
    }),
  });
  const sweep = async (workflowId: string) => {
    const { deleted } = await client.workflow.execute(subscriptionSweep, {
      workflowId,
      taskQueue: "test",
    });
    return deleted;
  };

  const first = await sweep("first");
  t.like(first, {
    // Those of both modes; the one of test mode is then deleted.
    erasedResponses: 2,
    // The organization's test mode, and both modes of the store.
    dailyCounts: 3,
    testData: { registrations: 2, donations: 1, responses: 1 },
    recountedAccounts: 2,
    expiredKeys: 1,
  });
  t.is(await readTestRecordCount(db, accountId), 0);
  const trees = await call("GET", "/plant/trees", { key });
  t.like(trees.body, { total_planted_trees: 0, tree_details: [] });
  const donations = await call("GET", "/charities/donations", { key });
  t.is(donations.body["total_items"], 0);
  t.is((await get("/app/api/plant", store.test)).body["count"], 0);
  t.is((await get("/app/api/plant", store.live)).body["count"], 1);
  const replayed = await post(
    "/app/api/plant",
    { ...store.live, "Idempotency-Key": "order-1" },
    order,
  );
  t.is(replayed.headers.get("Idempotent-Replayed"), "true");
  t.like(await sweep("second"), {
    erasedResponses: 0,
    dailyCounts: 0,
    testData: { registrations: 0, donations: 0, responses: 0 },
    expiredKeys: 0,
  });
});

test("old records are deleted although subscriptions cannot be read", async (t) => {
  let isDeleted = false;
  const client = await startWorker(t, {
    sweepSubscriptions: () => {
      throw ApplicationFailure.nonRetryable("Stripe does not answer");
    },
    deleteOldRecords: () => {
      isDeleted = true;
    },
  });

  await t.throwsAsync(
    client.workflow.execute(subscriptionSweep, { workflowId: "outage", taskQueue: "test" }),
  );

  t.true(isDeleted);
});
