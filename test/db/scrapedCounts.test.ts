import {
  listMeterEvents,
  countUsageAttention,
} from "../../modules/billing/meterEventReports.sql.ts";
import { sql } from "../../db/sql.ts";
import { readWebhookState } from "../../modules/events/endpointHealth.sql.ts";
import { newId } from "../../runtime/newId.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { insertEndpoints } from "../events/insertDeliveries.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";

// Serial, because each test counts the pages of its tables.
const test = testWithDatabase();

const EVENTS = 4000;
/** Planning reads pages of each index. With an index of all events that have a note, it was 248 pages. */
const MAXIMUM_ATTENTION_PAGES = 60;

const DELIVERIES = 5000;
/** When all due deliveries were searched for a leased one, it was 99 pages. */
const MAXIMUM_STATE_PAGES = 30;

test.serial(
  "usage that has an operator's attention is counted without reading all that was delivered",
  async (t) => {
    const { filler, db: single } = await openSinglePools(t);
    const tables = ["meter_event"];
    await stopAutovacuum(filler, tables);
    const { id: accountId } = await createTestOrganization(t.context.db);
    await filler.query(sql.typeAlias("void")`
    INSERT INTO meter_event (
      account_id, mode, kind, second, sequence, quantity, identifier, processor, state, attempts, is_late, last_error,
      sealed_at, settled_at
    )
    SELECT
      ${accountId}, 'live', 'tree', second, 1, 1, second::text, 'ledger', 'delivered', 2,
      second = 100, 'the connection was lost',
      now(), now()
    FROM generate_series(1, ${EVENTS}::integer) AS second
  `);
    await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) meter_event`);
    const countPages = await createPageCounter(filler, single, tables);

    const pages = await countPages(async (db) => {
      t.deepEqual(await countUsageAttention(db), [{ cause: "late", items: 1, units: 1 }]);
      const listed = await listMeterEvents(db, { state: "late", accountId: null, limit: 10 });
      t.deepEqual(
        listed.map(({ second }) => second),
        [100],
      );
    });

    t.true(pages > 0 && pages <= MAXIMUM_ATTENTION_PAGES, `${pages} pages`);
  },
);

test.serial("the wait of webhooks is read from the deliveries that are due first", async (t) => {
  const { filler, db: single } = await openSinglePools(t);
  const tables = ["webhook_delivery"];
  await stopAutovacuum(filler, tables);
  const endpointId = newId();
  const now = new Date();
  const nowText = now.toISOString();
  await insertEndpoints(filler, [endpointId], { deliveries: DELIVERIES, now });
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) webhook_delivery`);
  const countPages = await createPageCounter(filler, single, tables);
  const readWait = async (expected: number): Promise<void> => {
    const pages = await countPages(async (db) => {
      t.is((await readWebhookState(db, now)).unattendedSeconds, expected);
    });
    t.true(pages > 0 && pages <= MAXIMUM_STATE_PAGES, `${pages} pages`);
  };

  await readWait(DELIVERIES);
  // As many as an endpoint has places for, except the oldest one, which was released.
  await filler.query(sql.typeAlias("void")`
    UPDATE webhook_delivery
    SET leased_until = ${nowText}::timestamptz + interval '20 seconds'
    WHERE due_at <= ${nowText}::timestamptz - ${DELIVERIES - 9} * interval '1 second'
      AND due_at > ${nowText}::timestamptz - ${DELIVERIES} * interval '1 second'
  `);
  await readWait(0);
});
