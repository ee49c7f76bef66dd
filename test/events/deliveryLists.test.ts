import { sql } from "../../db/sql.ts";
import { listDeliveries } from "../../modules/events/deliveries.sql.ts";
import type { DeliveryState } from "../../modules/events/decideDelivery.rules.ts";
import { issueKey } from "../../modules/accounts/issueKey.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";
import { setUpWebhooks } from "./webhookScene.ts";

const test = testWithDatabase();

const TABLES = ["webhook_delivery"];
const DELIVERIES = 5000;
/** The endpoint's deliveries have more than 100. */
const MAXIMUM_PAGES = 20;

test.serial(
  "a list of failed or pending deliveries does not read those that were delivered later",
  async (t) => {
    const { filler, db: single } = await openSinglePools(t);
    await stopAutovacuum(filler, TABLES);
    const { endpoint } = await setUpWebhooks(t);
    const insert = (state: DeliveryState, count: number, fromMinute: number) =>
      filler.query(sql.typeAlias("void")`
      INSERT INTO webhook_delivery (endpoint_id, event_id, type, occurred_at, data, state, created_at, due_at)
      SELECT
        ${endpoint.id},
        gen_random_uuid(),
        'ping',
        now(),
        '{}',
        ${state},
        '2025-06-01T00:00:00Z'::timestamptz + make_interval(mins => number),
        CASE WHEN ${state} = 'pending' THEN now() END
      FROM generate_series(${fromMinute}::integer, ${fromMinute + count - 1}::integer) AS number
    `);
    await insert("delivered", DELIVERIES, 1000);
    await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) webhook_delivery`);
    await insert("failed", 5, 10);
    await insert("pending", 5, 20);
    const countPages = await createPageCounter(filler, single, TABLES);

    for (const state of ["failed", "pending"] as const) {
      const minutes: number[] = [];
      const pages = await countPages(async (db) => {
        let after = null;
        for (;;) {
          const page = await listDeliveries(db, endpoint.id, { state, after, limit: 3 });
          minutes.push(...page.map(({ createdAt }) => createdAt.getUTCMinutes()));
          after = page.at(-1) ?? null;
          if (page.length < 3) {
            break;
          }
        }
      });
      t.deepEqual(minutes, state === "failed" ? [14, 13, 12, 11, 10] : [24, 23, 22, 21, 20]);
      t.true(pages > 0 && pages <= MAXIMUM_PAGES, `${state}: ${pages} pages`);
    }
  },
);

test.serial("only deliveries in a state are read on the connections for slow reads", async (t) => {
  let statements = 0;
  const reads = await openTestPool(t, t.context.databaseUrl, 1, {
    interceptors: [
      {
        name: "count-statements",
        beforeQueryExecution: () => {
          statements += 1;
          return null;
        },
      },
    ],
  });
  const { deps, accountId, endpoint, record } = await setUpWebhooks(t);
  await record("first");
  const { call } = await startStandaloneApi(t, { db: deps.db, reads, clock: deps.clock });
  const { key } = await issueKey(deps, { id: accountId, type: "organization" }, "live");
  const path = `/webhook_endpoints/${endpoint.id}/deliveries`;

  t.is((await call("GET", path, { key })).status, 200);
  t.is(statements, 0);
  t.is((await call("GET", `${path}?state=pending`, { key })).status, 200);
  t.is(statements, 1);
});
