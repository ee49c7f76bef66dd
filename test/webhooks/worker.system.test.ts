import type { ExecutionContext } from "ava";
import { systemClock } from "../../domain/clock.ts";
import { recordEvent } from "../../services/events/recordEvent.ts";
import { refunded } from "../events/readEvents.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";
import { holdOpen } from "./startReceiver.ts";
import { setUpWebhooks, verify } from "./webhookScene.ts";

const test = testWithDatabase();

const startWorkers = async (t: ExecutionContext<DatabaseContext>) => {
  const { namespace } = await openNamespace(t);
  const startWorker = () =>
    startProgram(t, "worker/main.ts", {
      DATABASE_URL: t.context.databaseUrl,
      TEMPORAL_NAMESPACE: namespace,
      WEBHOOK_ALLOW_HTTP: "on",
      WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8",
    });
  return { startWorker };
};

test.serial("servers that do not respond delay no delivery to another server", async (t) => {
  const slow = await Promise.all(Array.from({ length: 5 }, () => setUpWebhooks(t)));
  const quick = await setUpWebhooks(t);
  for (const { receiver, record } of slow) {
    receiver.respond(holdOpen);
    for (let count = 0; count < 30; count += 1) {
      await record(String(count));
    }
  }
  const { startWorker } = await startWorkers(t);
  await startWorker();
  await eventually(() => slow.every(({ receiver }) => receiver.received.length >= 1));
  await quick.record("quick");
  await eventually(() => quick.receiver.received.length === 1);
  // The requests to the others have not timed out.
  t.true(slow.every(({ receiver }) => receiver.mostAtOnce() === receiver.received.length));
});

test.serial(
  "a delivery during which the worker is killed is made again with the same id, and none is lost",
  async (t) => {
    const { deps, accountId, receiver, secret, deliveries } = await setUpWebhooks(t);
    const { startWorker } = await startWorkers(t);
    const worker = await startWorker();
    receiver.respond(holdOpen);
    for (let count = 0; count < 3; count += 1) {
      await recordEvent(
        deps.db,
        { accountId, mode: "live" },
        systemClock.now(),
        refunded(String(count)),
      );
    }
    await eventually(() => receiver.received.length === 3);
    await worker.kill();
    receiver.respond((response) => response.writeHead(204).end());
    await startWorker();
    // The lease of the killed worker ends after half a minute.
    await eventually(async () => (await deliveries()).every(({ state }) => state === "delivered"));

    const idsOf = (requests: typeof receiver.received) =>
      requests.map(({ headers }) => String(headers["webhook-id"])).toSorted();
    t.deepEqual(idsOf(receiver.received.slice(3)), idsOf(receiver.received.slice(0, 3)));
    for (const request of receiver.received) {
      t.truthy(verify(request, secret));
    }
  },
);
