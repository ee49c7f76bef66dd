import { z } from "zod";
import { listWatchedSubscriptions } from "../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import { sql } from "../../db/sql.ts";
import { createTestStore } from "../stores/startStoreApi.ts";
import { readStoreState } from "../stores/storeState.ts";
import { testWithDatabase } from "../support/database.ts";
import { eventually } from "../support/programs.ts";
import { deployAtStripe } from "./deployAtStripe.ts";

const test = testWithDatabase().serial;

const SECRET = "whsec_of_the_tests";

// Serial, because a worker reads every subscription of the file's database.
test("a worker reads a subscription that was set before any worker started", async (t) => {
  const { db } = t.context;
  const { startWorker, subscriber } = await deployAtStripe(t);
  const { id } = subscriber;

  await startWorker();

  await eventually(async () => (await listWatchedSubscriptions(db, id)).length > 0);
  t.like((await listWatchedSubscriptions(db, id))[0], { status: "active" });
});

test("a report that the API stores is processed by a worker, also if it was stored while no worker ran", async (t) => {
  const { db } = t.context;
  const { control, startApi, startWorker, post } = await deployAtStripe(t);
  const settings = {
    STRIPE_WEBHOOK_SECRET: `whsec_old,${SECRET}`,
    // The rejection is logged as an error.
    LOG_LEVEL: "fatal",
  };
  const statesOf = (): Promise<readonly string[]> =>
    db.anyFirst(sql.type(z.strictObject({ state: z.string() }))`SELECT state FROM meter_event`);
  const api = await startApi(settings);
  control.setWebhook({ url: `${api.urls["standalone"]}/webhooks/stripe`, secret: SECRET });
  const worker = await startWorker(settings);
  control.addFault({ kind: "reject_later" });
  await post(api, "/plant/trees", { count: 5 });
  await eventually(async () => (await statesOf()).includes("delivered"));
  await worker.kill();
  t.deepEqual(await control.reportErrors({}), [200]);
  await startWorker(settings);
  await eventually(async () => (await statesOf()).includes("failed"));
  t.deepEqual(await statesOf(), ["failed"]);
});

test("a payment is credited once by the workers, one of which is killed while it reads the payment", async (t) => {
  const { db } = t.context;
  const { control, startApi, startWorker } = await deployAtStripe(t);
  const settings = { STRIPE_WEBHOOK_SECRET: SECRET };
  const api = await startApi(settings);
  control.setWebhook({ url: `${api.urls["standalone"]}/webhooks/stripe`, secret: SECRET });
  const store = await createTestStore(db);
  const topUp = { amount_dollars: 20 };
  const response = await api.post("/app/api/topup", topUp, store.live, "store");
  const { reference: sessionId } = z.object({ reference: z.string() }).parse(await response.json());
  const worker = await startWorker();
  const path = `/v1/checkout/sessions/${sessionId}`;
  control.addFault({ kind: "hold", method: "GET", path });
  const type = control.payCheckout({ sessionId });
  t.is(await control.announce({ type, objectId: sessionId }), 200);
  await eventually(() => control.held() === 1);
  await worker.kill();
  control.release();
  t.is(await control.announce({ type, objectId: sessionId }), 200);
  await startWorker();

  await eventually(async () => (await readStoreState(db, store.id)).balance === 2000);
  await eventually(
    async () =>
      !(await db.exists(sql.typeAlias("void")`
        SELECT FROM processor_event WHERE object_id = ${sessionId}
      `)),
  );
  t.like(await readStoreState(db, store.id), { balance: 2000, entries: 1, brokenLinks: 0 });
});
