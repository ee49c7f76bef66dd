import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { findEndpoint } from "../../modules/events/endpoints.sql.ts";
import {
  createWebhookEndpoint,
  updateWebhookEndpoint,
} from "../../modules/events/manageWebhookEndpoints.ts";
import { testWithDatabase } from "../support/database.ts";
import { createDeliveriesTo } from "./deliverTo.ts";
import { readEvents } from "./readEvents.ts";
import { answer, startReceiver } from "./startReceiver.ts";
import { setUpWebhooks, verify } from "./webhookScene.ts";

const test = testWithDatabase();

const auditRow = z.strictObject({ action: z.string(), actor: z.string(), subject: z.string() });

const SECOND_MS = 1000;
const DAY_MS = 24 * 60 * 60 * SECOND_MS;

test("a 410 disables the endpoint, and its owner learns of it by an event in the feed and at other endpoints", async (t) => {
  const {
    deps,
    owner,
    endpoint,
    record,
    deliver,
    receiver,
    deliveries,
    disabled,
    setStatus,
    pass,
  } = await setUpWebhooks(t);
  const elsewhere = await startReceiver(t);
  const { endpoint: other } = await createWebhookEndpoint(deps, owner, {
    url: elsewhere.url,
    types: ["webhook_endpoint.disabled"],
    description: "",
  });
  receiver.respond(answer(500));
  await record("first");
  await deliver();
  receiver.respond(answer(410));
  await record("second");
  await deliver();
  const gone = { disabledReason: "gone", lastError: "status 410" };
  t.like(await findEndpoint(deps.db, endpoint.id), gone);
  t.is(disabled.length, 1);
  await record("third");
  await deliver();
  t.is(
    receiver.received.length,
    2,
    "a disabled endpoint receives nothing, and nothing is recorded for it",
  );
  const { rows } = await deps.db.query(sql.type(auditRow)`
    SELECT action, actor, subject
    FROM audit_entry
    WHERE account_id = ${endpoint.accountId} AND action = 'webhook.disable'
  `);
  t.deepEqual(rows, [{ action: "webhook.disable", actor: "service", subject: endpoint.id }]);

  const data = {
    endpoint_id: endpoint.id,
    url_origin: new URL(endpoint.url).origin,
    disabled_reason: "gone",
    last_error: "status 410",
  };
  const types = ["webhook_endpoint.disabled"] as const;
  t.like(await readEvents(deps, owner, { types }), { 0: { data }, length: 1 });
  await createDeliveriesTo(deps, other.id)();
  const [request = t.fail()] = elsewhere.received;
  t.like(verify(request, other.secret), { type: "webhook_endpoint.disabled", data });

  t.like(await setStatus("enabled"), { disabledReason: null, failingSince: null });
  receiver.respond(answer(204));
  pass(5 * SECOND_MS);
  await deliver();
  t.deepEqual(
    (await deliveries()).map(({ state }) => state),
    ["delivered", "failed"],
    "what was pending is sent when the endpoint is enabled",
  );
});

/** Records an event, and makes all its attempts fail. */
const failCompletely = async ({
  record,
  deliver,
  receiver,
  pass,
}: Awaited<ReturnType<typeof setUpWebhooks>>): Promise<void> => {
  receiver.respond(answer(500));
  await record(crypto.randomUUID());
  for (let dueMs = await deliver(); dueMs !== null; dueMs = await deliver()) {
    pass(dueMs);
  }
};

test("five days of nothing but failures disable an endpoint; a success in between restarts the count", async (t) => {
  const scene = await setUpWebhooks(t);
  const { deps, endpoint, record, deliver, receiver } = scene;
  await failCompletely(scene);
  receiver.respond(answer(204));
  await record("success");
  await deliver();
  t.like(await findEndpoint(deps.db, endpoint.id), { failingSince: null, lastError: null });
  await failCompletely(scene);
  t.like(await findEndpoint(deps.db, endpoint.id), { disabledReason: null });
  await failCompletely(scene);
  t.like(await findEndpoint(deps.db, endpoint.id), { disabledReason: "failing" });
});

test("a failure long after the last one is retried before the endpoint is disabled", async (t) => {
  const scene = await setUpWebhooks(t);
  const { deps, endpoint, record, deliver, receiver, pass, deliveries } = scene;
  await failCompletely(scene);
  pass(20 * DAY_MS);
  await record("during a restart");
  t.is(await deliver(), 5 * SECOND_MS);
  t.like(await findEndpoint(deps.db, endpoint.id), { disabledReason: null });
  receiver.respond(answer(204));
  pass(5 * SECOND_MS);
  await deliver();
  t.like((await deliveries()).at(-1), { state: "delivered", attempts: 2 });
});

test("failures of an endpoint's earlier URL are not those of the new one", async (t) => {
  const { deps, endpoint, record, deliver, receiver, disabled } = await setUpWebhooks(t);
  receiver.respond(answer(500));
  await record("first");
  await deliver();
  const described = await updateWebhookEndpoint(deps, endpoint, { description: "old server" });
  t.not(described.failingSince, null);

  const successor = await startReceiver(t);
  // The endpoint moves while the server of its URL has a request.
  receiver.respond((response) => {
    updateWebhookEndpoint(deps, endpoint, { url: successor.url }).then(
      () => answer(410)(response),
      () => response.destroy(),
    );
  });
  await record("gone");
  await deliver();
  const moved = { url: successor.url, disabledReason: null, failingSince: null, lastError: null };
  t.like(await findEndpoint(deps.db, endpoint.id), moved);
  t.deepEqual(disabled, []);
});
