import { listOldestUnsealedFacts } from "../../modules/billing/sending/sealMeterEvents.sql.ts";
import { idRow, sql } from "../../db/sql.ts";
import { openPageCount } from "../support/countPages.ts";
import { openClient, testWithDatabase } from "../support/database.ts";

const test = testWithDatabase().serial;

/** Facts of different accounts are recorded in turn, so those of one are in different pages. */
const ACCOUNTS = 200;
const SECONDS = 100;

test("sealing reads no facts that were sealed before while a snapshot is open, unless it looks for earlier seconds", async (t) => {
  const tables = ["usage_fact", "meter_event"];
  const { filler, countPages } = await openPageCount(t, tables, ["usage_fact"]);
  const snapshot = await openClient(t, t.context.databaseUrl);
  const accountIds = await filler.anyFirst(sql.type(idRow)`
      INSERT INTO account (id, type, name, created_at)
      SELECT gen_random_uuid(), 'organization', number::text, now()
      FROM generate_series(1, ${ACCOUNTS}::integer) AS number
      RETURNING id
    `);
  await snapshot.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  await snapshot.query("SELECT FROM account");

  await filler.query(sql.typeAlias("void")`
      INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second)
      SELECT id, 'live', 'tree', nextval('usage_batch'), 1, second
      FROM generate_series(1, ${SECONDS}::integer) AS second
      CROSS JOIN account
    `);
  await filler.query(sql.typeAlias("void")`
      INSERT INTO meter_event
        (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at, settled_at)
      SELECT account_id, mode, kind, second, 1, quantity, id, 'ledger', 'delivered', now(), now()
      FROM usage_fact
    `);
  await filler.query(sql.typeAlias("void")`
      UPDATE usage_fact
      SET meter_event_id = meter_event.id
      FROM meter_event
      WHERE meter_event.identifier = usage_fact.id::text
    `);
  await filler.query(sql.typeAlias("void")`
      INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second)
      SELECT id, 'live', 'tree', nextval('usage_batch'), 1, ${SECONDS + 1}::integer
      FROM account
    `);
  const [accountId = ""] = accountIds;
  const seal = (firstSecond: number) =>
    countPages((db) =>
      db.transaction(async (transaction) => {
        const stream = { accountId, mode: "live", kind: "tree", firstSecond } as const;
        const [parts] = await listOldestUnsealedFacts(
          transaction,
          [{ ...stream, current: { processor: "stripe", customerId: null } }],
          { lastSecond: SECONDS + 1, doubtedFactId: null },
        );
        t.is(parts?.length, 1);
      }),
    );
  // Planning reads some pages the first time.
  await seal(SECONDS + 1);
  const pages = await seal(SECONDS + 1);
  t.true(pages < 20, `${pages} pages`);
  t.true((await seal(0)) > SECONDS);
});
