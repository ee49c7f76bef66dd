import { openCopyPool } from "../../../db/copyPool.ts";
import { sql } from "../../../db/sql.ts";
import { systemClock } from "../../../domain/clock.ts";
import { listRegistrations } from "../../../services/registrations/listRegistrations.ts";
import { createYieldingPace } from "../../support/bulkPaces.ts";
import { openTestCopies, testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";

const test = testWithDatabase();

const REGISTRATIONS = 900;

test("a list has the same content in small pages, of which the first does not yield", async (t) => {
  const { db, databaseUrl } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, attribution, metadata, json_bytes)
    SELECT
      gen_random_uuid(), ${accountId}, 'live', 'tree', number, now() - number * interval '1 second', '', '{}', 300
    FROM generate_series(1, ${REGISTRATIONS}) AS number
  `);
  const list = async (copies: Awaited<ReturnType<typeof openTestCopies>>) => {
    const { pages } = await listRegistrations(
      { db, copies, clock: systemClock },
      { accountId, mode: "live", kind: "tree" },
      {},
      null,
    );
    const texts: string[] = [];
    for await (const page of pages) {
      texts.push(Buffer.concat(page).toString());
    }
    return texts;
  };
  const pace = createYieldingPace();
  const copies = openCopyPool(databaseUrl, 60_000, { pace });
  t.teardown(copies.end);

  const [whole = "", ...others] = await list(await openTestCopies(t, db));
  t.deepEqual(others, []);
  const small = await list(copies);
  t.deepEqual(
    small.map((page) => JSON.parse(`[${page}]`).length),
    [250, 250, 250, 150],
  );
  t.is(small.join(","), whole);
  // The second to the fourth page, and one that finds nothing.
  t.is(pace.stepCount(), 4);
});
