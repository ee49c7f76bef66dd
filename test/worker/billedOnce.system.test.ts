import { once } from "node:events";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { createSupervisor } from "../../embedded/supervisor.ts";
import { listWaitingStreams } from "../../modules/billing/sending/waitingStreams.sql.ts";
import { findFreePort } from "../../runtime/server/ports.ts";
import { createTestStore } from "../stores/startStoreApi.ts";
import { readStoreState } from "../stores/storeState.ts";
import { testWithDatabase } from "../support/database.ts";
import { registerFor } from "../support/factories.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { eventually } from "../support/programs.ts";
import { startTemporal } from "../support/startTemporal.ts";
import { deployAtStripe } from "./deployAtStripe.ts";

// Serial, because a worker serves everything that waits in the database of the file.
const test = testWithDatabase().serial;

test("the usage of many organizations is billed once if one of two workers is killed while it sends", async (t) => {
  const { db } = t.context;
  const { control, startWorker, subscribers } = await deployAtStripe(t, { organizations: 24 });
  const register = (count: number) =>
    Promise.all(subscribers.map(({ id }) => registerFor(db, id, { count })));
  const billed = (customerId: string): readonly number[] =>
    control
      .events()
      .filter((event) => event.customerId === customerId)
      .map(({ value }) => value);
  const first = await startWorker();
  // Calls hang until the worker is dead: half of them before Stripe has recorded the usage, and half after.
  control.addFault({ kind: "hang", applied: true, times: 12 });
  control.addFault({ kind: "hang", times: 1_000_000 });
  await register(5);
  await eventually(() => control.held() === subscribers.length);

  await startWorker();
  await first.kill();
  control.clearFaults();
  await register(7);

  await eventually(async () => (await listWaitingStreams(db)).length === 0);
  for (const { customerId } of subscribers) {
    t.deepEqual(billed(customerId), [5, 7]);
  }
  t.is(control.overlaps(), 0);
});

const SECRET = "whsec_of_the_tests";

test("a payment is credited once by the workers, one of which is killed while it reads the payment", async (t) => {
  const { db } = t.context;
  const { control, startApi, startWorker } = await deployAtStripe(t);
  const settings = { STRIPE_WEBHOOK_SECRET: `whsec_old,${SECRET}` };
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

test("registrations are accepted while Temporal is down and billed when it is back, and the worker still stops gracefully", async (t) => {
  const { control, startApi, startWorker, post, billed } = await deployAtStripe(t);
  const folder = await makeTestFolder(t);
  const port = await findFreePort();
  const supervisor = createSupervisor(folder, () => undefined);
  t.teardown(supervisor.stopAll);
  const settings = {
    TEMPORAL_ADDRESS: `127.0.0.1:${port}`,
    TEMPORAL_NAMESPACE: "default",
    // Errors about Temporal are expected.
    LOG_LEVEL: "fatal",
  };

  const api = await startApi(settings);
  const { process: worker } = await startWorker(settings);
  const plant = async (count: number): Promise<void> => {
    t.is((await post(api, "/plant/trees", { count })).status, 200);
  };

  await plant(3);
  const readiness = await fetch(`${api.urls["standalone"]}/readyz`);
  t.is(readiness.status, 200);
  t.deepEqual(await readiness.json(), {
    status: "ok",
    database: "ok",
    clock: "ok",
    temporal: "unreachable",
  });

  const server = await startTemporal(folder, supervisor.context, { port });
  await eventually(() => billed() === 3);

  await server.process.stop();
  await plant(4);
  await startTemporal(folder, supervisor.context, { port });
  await eventually(() => billed() === 7);
  t.is(control.overlaps(), 0);

  worker.kill("SIGTERM");
  t.deepEqual(await once(worker, "exit"), [0, null]);
});
