import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { listDueEndpoints } from "../../db/webhooks/deliveries.ts";
import { shardOf } from "../../domain/shards.ts";
import { createDeliverySender } from "../../services/webhooks/sending/createDeliverySender.ts";
import { createEndpointSpeeds } from "../../services/webhooks/sending/createEndpointQueue.ts";
import type { DeliveryDependencies } from "../../services/webhooks/sending/makeAttempt.ts";

const dueRow = z.strictObject({ dueAt: z.date().nullable() });

/**
 * Makes the due deliveries of one endpoint, until none is due. Other tests have endpoints in the same shard.
 * @returns in how many milliseconds the next attempt is due; null if none is
 */
export const deliverTo = async (
  deps: DeliveryDependencies,
  endpointId: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<number | null> => {
  const { db, clock } = deps;
  const listDue = async () => {
    const due = await listDueEndpoints(db, { after: null, now: clock.now(), limit: 1_000_000 });
    return due.filter(({ id }) => id === endpointId);
  };
  const speeds = createEndpointSpeeds();
  // As if it had responded before.
  speeds.set(endpointId, "quick");
  const sender = createDeliverySender(deps, shardOf(endpointId), {
    scanEndpoints: async () => ({ items: await listDue(), next: null }),
    speeds,
    onFailure: (_delivery, error) => {
      throw error;
    },
    signal,
  });
  while (!signal.aborted && (await listDue()).length > 0) {
    sender.startScan();
    await sender.step();
    await sender.settled();
  }
  const dueAt = await db.oneFirst(sql.type(dueRow)`
    SELECT min(greatest(due_at, leased_until)) AS "dueAt"
    FROM webhook_delivery
    WHERE endpoint_id = ${endpointId} AND state = 'pending'
  `);
  return dueAt && Math.max(0, dueAt.getTime() - clock.now().getTime());
};
