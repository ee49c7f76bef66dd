import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { recordEvent } from "../../modules/events/recordEvent.ts";
import { refunded } from "./readEvents.ts";
import { testWithDatabase } from "../support/database.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";
import { answer, holdOpen } from "./startReceiver.ts";
import { setUpWebhooks, verify } from "./webhookScene.ts";

const test = testWithDatabase();

test("deliveries during which the worker is killed are made again with the same ids", async (t) => {
  const { db, databaseUrl } = t.context;
  const { accountId, receiver, secret, deliveries } = await setUpWebhooks(t);
  const { namespace } = await openNamespace(t);
  const startWorker = () =>
    startProgram(t, "worker/main.ts", {
      DATABASE_URL: databaseUrl,
      TEMPORAL_NAMESPACE: namespace,
      WEBHOOK_ALLOW_HTTP: "on",
      WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8",
    });
  const record = (id: string) =>
    recordEvent(db, { accountId, mode: "live" }, systemClock.now(), refunded(id));
  const isDelivered = async () => (await deliveries()).every(({ state }) => state === "delivered");
  const worker = await startWorker();
  receiver.respond(holdOpen);
  for (const id of ["first", "second", "third"]) {
    await record(id);
  }
  await eventually(() => receiver.received.length === 3);
  await worker.kill();
  t.is(receiver.mostAtOnce(), 3);

  receiver.respond(answer(204));
  // The leases expire; delivery.test.ts proves it.
  await db.query(sql.typeAlias("void")`
    UPDATE webhook_delivery SET due_at = now() WHERE state = 'pending'
  `);
  await startWorker();
  await eventually(isDelivered);

  const idsOf = (requests: typeof receiver.received) =>
    requests.map(({ headers }) => String(headers["webhook-id"])).toSorted();
  t.deepEqual(idsOf(receiver.received.slice(3)), idsOf(receiver.received.slice(0, 3)));
  for (const request of receiver.received) {
    t.truthy(verify(request, secret));
  }
});
