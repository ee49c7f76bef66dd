import { Webhook } from "standardwebhooks";
import { z } from "zod";
import type { DatabasePool } from "slonik";
import { listDueEndpoints } from "../../modules/events/attempts.sql.ts";
import { createDeliveryWork } from "../../modules/events/createDeliveryRuns.ts";
import { createWebhookSender } from "../../modules/events/createWebhookSender.ts";
import type { DeliveryContext } from "../../modules/events/createDeliveryRuns.ts";
import { createSender } from "../../db/createRuns.ts";
import { runSender } from "../support/runSender.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { WebhookEndpoint } from "../../modules/events/endpoints.sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { recordEvent } from "../../modules/events/recordEvent.ts";
import {
  createWebhookEndpoint,
  updateWebhookEndpoint,
} from "../../modules/events/manageWebhookEndpoints.ts";
import { sql } from "../../db/sql.ts";
import { refunded } from "./readEvents.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { startReceiver } from "./startReceiver.ts";
import type { Received } from "./startReceiver.ts";

/** Where the tests' receivers are. */
export const LOOPBACK = { allowsHttp: true, allowedNetworks: ["127.0.0.0/8"] };

export const deliveryContext = (db: DatabasePool, clock: Clock = systemClock): DeliveryContext => ({
  db,
  clock,
  send: createWebhookSender(LOOPBACK),
  random: () => 0.5,
  observeAttempt: () => undefined,
  observeDisabled: () => undefined,
  onFailure: (_delivery, error) => {
    throw error;
  },
});

const dueRow = z.strictObject({ dueAt: z.date().nullable() });

/** Returns a function that makes the due deliveries of one endpoint. Other tests have endpoints in the same database. */
export const createDeliveriesTo = (deps: DeliveryContext, endpointId: string) => {
  const { db, clock } = deps;
  const listDue = async () => {
    const due = await listDueEndpoints(db, { after: null, now: clock.now(), limit: 1_000_000 });
    return due.filter((id) => id === endpointId);
  };
  const work = createDeliveryWork(deps, listDue);
  /** @returns in how many milliseconds the next attempt is due; null if none is */
  return async (signal = new AbortController().signal): Promise<number | null> => {
    const sender = createSender(work, signal);
    while (!signal.aborted && (await listDue()).length > 0) {
      await runSender(sender);
    }
    const dueAt = await db.oneFirst(sql.type(dueRow)`
      SELECT min(due_at) AS "dueAt"
      FROM webhook_delivery
      WHERE endpoint_id = ${endpointId} AND state = 'pending'
    `);
    return dueAt && Math.max(0, dueAt.getTime() - clock.now().getTime());
  };
};

const message = z.object({
  type: z.string(),
  timestamp: z.string(),
  data: z.record(z.string(), z.unknown()),
});

/** Verifies a request as a receiver would, and returns its message. Fails if the signature is wrong. */
export const verify = ({ body, headers }: Received, secret: string): z.output<typeof message> =>
  message.parse(new Webhook(secret).verify(body, headers));

const deliveryRow = z.strictObject({
  state: z.string(),
  attempts: z.int(),
  dueAt: z.date().nullable(),
  error: z.string().nullable(),
});

/** Creates an organization with an endpoint at a receiver, and a worker whose clock stands still. */
export const setUpWebhooks = async (
  t: DatabaseTest,
  { types = null }: { readonly types?: string[] | null } = {},
) => {
  const { db } = t.context;
  // Receivers compare the time of a request with their own.
  const clock = createMovableClock(new Date().toISOString());
  const disabled: WebhookEndpoint[] = [];
  const receiver = await startReceiver(t);
  const { id: accountId } = await createTestOrganization(db);
  const deps = {
    ...deliveryContext(db, clock),
    actor: SERVICE,
    webhookSettings: LOOPBACK,
    observeDisabled: (endpoint: WebhookEndpoint) => void disabled.push(endpoint),
  };
  const owner = { accountId, mode: "live" } as const;
  const given = { url: receiver.url, types, description: "" };
  const { endpoint } = await createWebhookEndpoint(deps, owner, given);
  return {
    deps,
    clock,
    accountId,
    owner,
    receiver,
    endpoint,
    secret: endpoint.secret,
    /** The endpoints that were disabled because of their responses. */
    disabled,
    record: (name: string, mode: Mode = "live") =>
      recordEvent(db, { accountId, mode }, clock.now(), refunded(name)),
    deliver: createDeliveriesTo(deps, endpoint.id),
    setStatus: (status: "enabled" | "disabled") =>
      updateWebhookEndpoint({ ...deps, actor: null }, endpoint, { status }),
    pass: (ms: number) => clock.set(new Date(clock.now().getTime() + ms).toISOString()),
    deliveries: () =>
      db.any(sql.type(deliveryRow)`
        SELECT state, attempts, due_at AS "dueAt", last_attempt ->> 'error' AS error
        FROM webhook_delivery
        WHERE endpoint_id = ${endpoint.id}
        ORDER BY created_at, event_id
      `),
  };
};
