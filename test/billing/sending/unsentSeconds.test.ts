import type { DatabasePool } from "slonik";
import { ownerKey } from "../../../modules/records/owner.rules.ts";
import type { Owner } from "../../../modules/records/owner.rules.ts";
import type { UnsentStream } from "../../../modules/billing/sending/waitingStreams.sql.ts";
import { countRow, sql } from "../../../db/sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { sealMeterEvents } from "../../../modules/billing/sending/sealMeterEvents.ts";
import { openPageCount } from "../../support/countPages.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { setUpSending } from "./sendingSetup.ts";

// Serial, because a sender serves everything that waits in the database of the file.
const test = testWithDatabase().serial;

type Seconds = { readonly from: number; readonly count: number };

/** Records a unit in each second, and the refund of it. */
const recordRefunded = (
  owner: DatabasePool,
  { accountId, mode, kind }: Owner,
  { from, count }: Seconds,
): Promise<unknown> =>
  owner.transaction(async (transaction) => {
    // The refunded registrations are not needed.
    await transaction.query(sql.typeAlias("void")`SET LOCAL session_replication_role = replica`);
    await transaction.query(sql.typeAlias("void")`
      WITH usage AS (
        INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second)
        SELECT ${accountId}, ${mode}, ${kind}, nextval('usage_batch'), 1, ${from}::bigint + number
        FROM generate_series(0, ${count - 1}::integer) AS number
        RETURNING *
      )
      INSERT INTO usage_fact (account_id, mode, kind, usage_batch, refund_id, quantity, second)
      SELECT account_id, mode, kind, usage_batch, gen_random_uuid(), -1, second FROM usage
    `);
  });

/** Makes the units of the seconds usage that Stripe has refused, so that their refunds wait for it. */
const refuseUnits = (owner: DatabasePool, { accountId }: Owner): Promise<unknown> =>
  owner.query(sql.typeAlias("void")`
    WITH refused AS (
      INSERT INTO meter_event
        (
          account_id, mode, kind, second, sequence, quantity, identifier, processor, state, failure, sealed_at, settled_at
        )
      SELECT account_id, mode, kind, second, 1, quantity, id, 'stripe', 'failed', 'refused', now(), now()
      FROM usage_fact
      WHERE account_id = ${accountId} AND refund_id IS NULL
      RETURNING id, identifier
    )
    UPDATE usage_fact
    SET meter_event_id = refused.id
    FROM refused
    WHERE usage_fact.id::text = refused.identifier
  `);

test("seconds whose units were refunded are sealed by few statements, which read a number of pages in proportion", async (t) => {
  let statements = 0;
  const countStatement = (): null => {
    statements += 1;
    return null;
  };
  const tables = ["usage_fact", "meter_event"];
  const { filler, db, vacuum, countPages } = await openPageCount(t, tables, tables, {
    interceptors: [{ name: "count-statements", beforeQueryExecution: countStatement }],
  });
  const createStream = async (count: number) => {
    const { id: accountId } = await createTestOrganization(filler);
    const stream: Owner = { accountId, mode: "live", kind: "tree" };
    await recordRefunded(filler, stream, { from: 1, count });
    return stream;
  };
  const sealed = await createStream(3000);
  const few = await createStream(500);
  const many = await createStream(4000);
  const other = await createStream(1);
  // The statistics know of no sealed usage. Without any, PostgreSQL would always read all of it.
  await vacuum();
  await refuseUnits(filler, sealed);
  const deps = { db, clock: systemClock, billing: createBilling({ db, stripe: null }) };
  let calls = 0;
  let mostStatements = 0;
  const sealAll = async (stream: Owner): Promise<void> => {
    let next: UnsentStream = { ...stream, firstSecond: 0 };
    for (;;) {
      statements = 0;
      const [sealing] = await sealMeterEvents(deps, [next], new Date());
      calls += 1;
      mostStatements = Math.max(mostStatements, statements);
      if (sealing?.kind !== "more") {
        t.is(sealing?.kind, "none");
        return;
      }
      next = sealing.stream;
    }
  };
  // Planning reads some pages the first time.
  await sealAll(other);
  const fewPages = await countPages(() => sealAll(few));
  calls = 0;
  const manyPages = await countPages(() => sealAll(many));

  t.true(mostStatements < 30, `${mostStatements} statements`);
  t.true(calls > 1);
  t.true(manyPages < 12 * fewPages, `${fewPages} and ${manyPages} pages`);
  const unsent = await filler.oneFirst(sql.type(countRow)`
    SELECT count(*) AS count FROM meter_event WHERE state = 'delivered' AND quantity = 0
  `);
  t.is(unsent, 4501);
});

test("a stream with thousands of seconds that are not sent is continued after others, and each is billed once", async (t) => {
  const setup = await setUpSending(t, 3);
  const { organizations, billedUnits, deps, pass, sends } = setup;
  const { owner } = t.context;
  const [refunded = t.fail(), refused = t.fail(), normal = t.fail()] = organizations;
  const from = Math.floor(deps.clock.now().getTime() / 1000) - 2500;
  await recordRefunded(owner, refunded.stream, { from, count: 2000 });
  await recordRefunded(owner, refused.stream, { from, count: 2000 });
  await refuseUnits(owner, refused.stream);
  await Promise.all([refunded.register(2), refused.register(3), normal.register(4)]);
  pass(5);

  await setup.reportOnce();

  t.is(setup.results[0]?.key, ownerKey(normal.stream));
  t.deepEqual(billedUnits(), [2, 3, 4]);
  t.is(sends(), 3);
  t.deepEqual(setup.failures, []);
});
