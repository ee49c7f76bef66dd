import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { listDueEndpoints } from "../../modules/events/attempts.sql.ts";
import { createDeliverySender } from "../../modules/events/createDeliveryRuns.ts";
import { createWebhookSender } from "../../modules/events/createWebhookSender.ts";
import type { DeliveryContext } from "../../modules/events/context.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { Clock } from "../../runtime/clock.ts";

/** Where the tests' receivers are. */
export const LOOPBACK = { allowsHttp: true, allowedNetworks: ["127.0.0.0/8"] };

/** Returns what makes deliveries to receivers of the tests. */
export const deliveryContext = (db: DatabasePool, clock: Clock = systemClock): DeliveryContext => ({
  db,
  clock,
  send: createWebhookSender(LOOPBACK),
  random: () => 0.5,
  observeAttempt: () => undefined,
  observeDisabled: () => undefined,
});

const dueRow = z.strictObject({ dueAt: z.date().nullable() });

/** Returns a function that makes the due deliveries of one endpoint. Other tests have endpoints in the same database. */
export const createDeliveriesTo = (deps: DeliveryContext, endpointId: string) => {
  const { db, clock } = deps;
  const listDue = async () => {
    const due = await listDueEndpoints(db, { after: null, now: clock.now(), limit: 1_000_000 });
    return due.filter((id) => id === endpointId);
  };
  const createSender = (signal: AbortSignal) =>
    createDeliverySender(deps, {
      scanEndpoints: listDue,
      onFailure: (_delivery, error) => {
        throw error;
      },
      signal,
    });
  const own = createSender(new AbortController().signal);
  /** @returns in how many milliseconds the next attempt is due; null if none is */
  const deliver = async (signal?: AbortSignal): Promise<number | null> => {
    const sender = signal === undefined ? own : createSender(signal);
    const isStopped = (): boolean => signal?.aborted === true;
    while (!isStopped() && (await listDue()).length > 0) {
      await sender.scan();
      await sender.step();
      await sender.settled();
    }
    const dueAt = await db.oneFirst(sql.type(dueRow)`
      SELECT min(due_at) AS "dueAt"
      FROM webhook_delivery
      WHERE endpoint_id = ${endpointId} AND state = 'pending'
    `);
    return dueAt && Math.max(0, dueAt.getTime() - clock.now().getTime());
  };
  return deliver;
};
