import type { DatabasePool } from "slonik";
import { z } from "zod";
import { findEvidenceTree } from "../../db/planting/treeEvidence.ts";
import { openPool } from "../../db/pool.ts";
import { findListPosition } from "../../db/registrations/registrationPages.ts";
import {
  addRefundedCount,
  findByIdempotencyKey,
  findOwnRegistration,
  lockRegistration,
} from "../../db/registrations/registrations.ts";
import { findRegistrationUsage } from "../../db/registrations/registrationUsage.ts";
import { readShortPage } from "../../db/registrations/shortPages.ts";
import { insertReversals } from "../../db/registrations/storeRegistrations.ts";
import { sql } from "../../db/sql.ts";
import { createPageCounter, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";

const test = testWithDatabase();

/** After so many executions, PostgreSQL keeps the plan of a prepared statement. */
const EXECUTIONS = 8;
/** They have 1,200 pages. */
const RECORDS = 50_000;
const MAXIMUM_PAGES = 100;

const insertRecords = (filler: DatabasePool, accountId: string, count: number) =>
  filler.query(sql.typeAlias("void")`
    INSERT INTO registration
      (id, account_id, mode, kind, count, created_at, attribution, idempotency_key, usage_batch)
    SELECT
      gen_random_uuid(), ${accountId}, 'live', 'tree', 100,
      '2026-11-01'::timestamptz - number * interval '1 second', 'campaign-' || number % 100, 'key-' || number, 0
    FROM generate_series((SELECT count(*) FROM registration) + 1, ${count}::integer) AS number
  `);

const idRow = z.strictObject({ id: z.uuid() });

test("a plan that was made for few registrations is not kept when there are many", async (t) => {
  const filler = await openPool(t.context.ownerUrl, 1);
  const db = await openPool(t.context.databaseUrl, 1);
  t.teardown(() => Promise.all([filler.end(), db.end()]));
  const { id: accountId } = await createTestOrganization(db);
  // The plans are not made again because of new statistics.
  await stopAutovacuum(filler, ["registration"]);
  await insertRecords(filler, accountId, 60);
  await filler.query(sql.typeAlias("void")`ANALYZE`);
  const id = await db.oneFirst(sql.type(idRow)`SELECT id FROM registration LIMIT 1`);
  const owner = { accountId, mode: "live", kind: "tree" } as const;
  const now = new Date();
  const page = {
    after: null,
    limits: { rows: 21, bytes: 1_000_000 },
    separator: ",",
    now,
  } as const;
  const operations: Readonly<Record<string, (single: DatabasePool) => Promise<unknown>>> = {
    "a short page": (single) => readShortPage(single, owner, {}, page),
    "a short page of an attribution": (single) =>
      readShortPage(single, owner, { attribution: "campaign-1" }, page),
    "a registration of the list": (single) => readShortPage(single, owner, { id }, page),
    "the position of a registration": (single) => findListPosition(single, owner, id),
    "a registration": (single) => findOwnRegistration(single, owner, id),
    "a registration by its key": (single) => findByIdempotencyKey(single, owner, "key-7", now),
    "its refunded units": (single) =>
      single.transaction((transaction) => addRefundedCount(transaction, id, 1)),
    "its lock": (single) =>
      single.transaction((transaction) => lockRegistration(transaction, owner, id)),
    "its usage": (single) => findRegistrationUsage(single, owner, id),
    "its evidence": (single) => findEvidenceTree(single, owner, id, "", now),
    "its reversal": (single) =>
      single.transaction((transaction) =>
        insertReversals(
          transaction,
          accountId,
          [{ refundId: crypto.randomUUID(), registrationId: id, count: 1 }],
          { reason: null, reversedAt: now },
        ),
      ),
  };
  // So that PostgreSQL keeps their plans, which read the few pages of the table.
  for (const operation of Object.values(operations)) {
    for (let execution = 0; execution < EXECUTIONS; execution += 1) {
      await operation(db);
    }
  }
  await insertRecords(filler, accountId, RECORDS);

  const countPages = await createPageCounter(filler, db, ["registration"]);
  for (const operation of Object.values(operations)) {
    await eventually(async () => (await countPages(operation)) <= MAXIMUM_PAGES);
  }
  for (const [name, operation] of Object.entries(operations)) {
    const pages = await countPages(operation);
    t.true(pages > 0 && pages <= MAXIMUM_PAGES, `${name}: ${pages} pages`);
  }
});
