import type { DatabasePool } from "slonik";
import { sql } from "../../db/sql.ts";
import { newId } from "../../runtime/newId.ts";
import { newSecret } from "../../modules/events/signWebhook.ts";

/** Inserts deliveries of each of some endpoints. They have become due one second before the other. */
export const insertDeliveries = async (
  db: DatabasePool,
  endpointIds: readonly string[],
  count: number,
  { state = "pending" }: { readonly state?: string } = {},
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    WITH event AS (
      INSERT INTO event (id, account_id, mode, type, created_at, data)
      SELECT gen_random_uuid(), account_id, mode, 'ping', now() - make_interval(secs => number), '{}'
      FROM webhook_endpoint
      CROSS JOIN generate_series(1, ${count}::integer) AS number
      WHERE id = ANY(${sql.array([...endpointIds], "uuid")})
      RETURNING id, account_id, mode, created_at
    )
    INSERT INTO webhook_delivery (event_id, endpoint_id, state, attempts, created_at, due_at)
    SELECT
      event.id, webhook_endpoint.id, ${state}, CASE WHEN ${state} = 'pending' THEN 0 ELSE 1 END, event.created_at,
      CASE WHEN ${state} = 'pending' THEN event.created_at END
    FROM event
    JOIN webhook_endpoint USING (account_id, mode)
    WHERE webhook_endpoint.id = ANY(${sql.array([...endpointIds], "uuid")})
  `);
};

/** Inserts endpoints, each of its own organization and with its id at the end of its URL, with due deliveries. */
export const insertEndpoints = async (
  db: DatabasePool,
  count: number,
  {
    url = "https://shop.example",
    deliveries,
  }: { readonly url?: string; readonly deliveries: number },
): Promise<readonly string[]> => {
  const ids = Array.from({ length: count }, () => newId());
  await db.query(sql.typeAlias("void")`
    WITH account AS (
      INSERT INTO account (id, type, name, created_at)
      SELECT id, 'organization', id::text, now()
      FROM unnest(${sql.array(ids, "uuid")}) AS id
      RETURNING id
    )
    INSERT INTO webhook_endpoint (id, account_id, mode, url, description, secret, created_at)
    SELECT id, id, 'live', ${url} || '/' || id, '', ${newSecret()}, now()
    FROM account
  `);
  await insertDeliveries(db, ids, deliveries);
  return ids;
};
