import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { AccountMode } from "../../modules/records/owner.rules.ts";
import { EVENT_TYPES, eventIdOf } from "../../modules/events/events.rules.ts";
import { readFeed } from "../../modules/feed/readFeed.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { refunded } from "./readEvents.ts";

const test = testWithDatabase();

const KNOWN_ACCOUNTS = 20;
/** Of each account, mixed with those of the others. */
const RECORDS = 1000;
/** PostgreSQL compares the plans of so many executions with one that it could keep. */
const PLANNED_EXECUTIONS = 5;

const insertEvents = async (filler: DatabasePool, accountIds: readonly string[]): Promise<void> => {
  await filler.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, usage_batch, transaction_id)
    SELECT gen_random_uuid(), account_id, 'live', 'tree', 1, now(), 0, (3 + number % 100)::text::xid8
    FROM generate_series(1, ${RECORDS}::integer) AS number
    CROSS JOIN unnest(${sql.array([...accountIds], "uuid")}) AS account_id
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO event (id, account_id, mode, type, created_at, data)
    SELECT gen_random_uuid(), account_id, 'live', type, created_at, ${JSON.stringify(refunded("1").data)}::json
    FROM registration
    CROSS JOIN unnest(ARRAY['registration.refunded', 'balance.low']) AS type
    WHERE account_id = ANY(${sql.array([...accountIds], "uuid")})
  `);
};

const plansRow = z.strictObject({ planned: z.int(), kept: z.int() });

test("a page is one statement, and not planned each time, whatever is asked for and whatever the statistics say", async (t) => {
  const { owner: filler, databaseUrl } = t.context;
  let statements = 0;
  const db = await openTestPool(t, databaseUrl, 1, {
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
  const known: string[] = [];
  for (let index = 0; index < KNOWN_ACCOUNTS; index += 1) {
    known.push((await createTestOrganization(db)).id);
  }
  const unknown = await createTestOrganization(db);
  const owner: AccountMode = { accountId: unknown.id, mode: "live" };
  await insertEvents(filler, known);
  await filler.query(sql.typeAlias("void")`ANALYZE`);
  await insertEvents(filler, [unknown.id]);
  const read = (
    startingAfter: string | null,
    limit: number,
    types: Parameters<typeof readFeed>[2]["types"] = EVENT_TYPES,
  ) => readFeed({ db, clock: systemClock }, owner, { types, startingAfter, limit });
  // Other files' transactions may hold events back.
  let first = await read(null, 3);
  while (first.events.length === 0) {
    first = await read(null, 3);
  }
  const [after = t.fail()] = first.events.map(eventIdOf);

  statements = 0;
  const limits = [1, 2, 10, 100, 1000, 1, 2, 10];
  for (const limit of limits) {
    await read(null, limit);
    await read(after, limit);
    await read(after, limit, ["registration.refunded"]);
  }

  t.is(statements, 3 * limits.length);
  const { planned, kept } = await db.one(sql.type(plansRow)`
    SELECT custom_plans::integer AS planned, generic_plans::integer AS kept
    FROM pg_prepared_statements
    WHERE name LIKE 'read_feed%'
  `);
  t.is(planned, PLANNED_EXECUTIONS);
  t.true(kept >= statements - PLANNED_EXECUTIONS);
});
