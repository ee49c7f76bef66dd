import { randomUUID } from "node:crypto";
import { z } from "zod";
import { readPage } from "../../../modules/registrations/registrationPages.sql.ts";
import { insertRegistrations } from "../../../modules/registrations/registrations.sql.ts";
import { sql } from "../../../db/sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { presentRegistration } from "../../../modules/registrations/presentRegistration.rules.ts";
import type { Registration } from "../../../modules/registrations/registrations.rules.ts";
import { listRegistrations } from "../../../modules/registrations/listRegistrations.ts";
import { unhurriedPace } from "../../../db/createBulkPace.ts";
import type { BulkPace } from "../../../db/createBulkPace.ts";
import { createYieldingPace } from "../../support/bulkPaces.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { createRandom } from "../../support/random.ts";
import type { Random } from "../../support/random.ts";

const test = testWithDatabase();

const ONE_ROW = {
  limits: { rows: 1, bytes: Number.MAX_SAFE_INTEGER },
  now: new Date(),
} as const;

const NUMBERS = [0, 1, -1, 0.1, 1e21, -1e300, 5e-324, 1.797_693_134_862_315_7e308, 2 ** 53, 1e-7];
const TEXTS = ["", "a", 'a "quoted" \\ text', "\t\n\u0001", "é", "𝒳", "1e+300 1e-300", ",:,:,:"];

/** Mostly commas and numbers with an exponent. */
const EXTREMES = [1, 1e300, 5e-324, "", {}].map((value) => ({
  a: Array.from({ length: 2000 }, () => value),
}));

const randomValue = (random: Random, depth: number): unknown => {
  switch (random.below(depth > 0 ? 5 : 3)) {
    case 0:
      return random.pick(NUMBERS);
    case 1:
      return random.pick(TEXTS);
    case 2:
      return random.pick([true, false, null]);
    case 3:
      return Array.from({ length: random.below(12) }, () => randomValue(random, depth - 1));
    default:
      return randomObject(random, depth - 1);
  }
};

const randomObject = (random: Random, depth: number): Record<string, unknown> =>
  Object.fromEntries(
    Array.from({ length: random.below(12) }, (_, index) => [
      `${random.pick(TEXTS)}${index}`,
      randomValue(random, depth),
    ]),
  );

const storedMaximum = z.strictObject({ id: z.uuid(), maximum: z.int() });

test("no registration's JSON in a list is longer than its stored maximum", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const random = createRandom(11);
  const entries = Array.from({ length: 500 }, (_, index) => ({
    ...registrationOf(accountId),
    id: randomUUID(),
    idempotencyKey: `${random.pick(TEXTS)}${index}`,
    count: 9_007_199_254_740,
    fractionalCount: 0.123_456_789_012_345_68,
    attribution: random.pick(TEXTS),
    metadata: EXTREMES[index] ?? randomObject(random, 3),
  }));
  await insertRegistrations(db, entries, systemClock.now());
  const stored = await db.any(sql.type(storedMaximum)`
    SELECT id, json_bytes AS maximum FROM registration
  `);
  const maximums = new Map(stored.map(({ id, maximum }) => [id, maximum]));
  const owner = { accountId, mode: "live", kind: "tree" } as const;

  let { page } = await readPage(db, owner, {}, { ...ONE_ROW, after: null });
  let pages = 0;
  while (page) {
    const json = JSON.stringify(Array.from(page.registrations, presentRegistration)).slice(1, -1);
    const bytes = Buffer.byteLength(json);
    const maximum = maximums.get(page.last.id) ?? 0;
    t.true(bytes <= maximum, `${bytes} > ${maximum}: ${json}`);
    pages += 1;
    ({ page } = await readPage(db, owner, {}, { ...ONE_ROW, after: page.last }));
  }
  t.is(pages, entries.length);
});

const REGISTRATIONS = 900;

test("a list has the same content in small pages, of which the first does not yield", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, attribution, metadata, json_bytes)
    SELECT
      gen_random_uuid(), ${accountId}, 'live', 'tree', number, now() - number * interval '1 second', '', '{}', 300
    FROM generate_series(1, ${REGISTRATIONS}) AS number
  `);
  const list = async (pace: BulkPace) => {
    const { pages } = listRegistrations(
      { db, lists: db, pace, clock: systemClock },
      { accountId, mode: "live", kind: "tree" },
      {},
      { startingAfter: null, limit: null },
    );
    const read: (readonly Registration[])[] = [];
    for await (const { rows } of pages) {
      read.push([...rows]);
    }
    return read;
  };
  const pace = createYieldingPace();

  const [whole = [], ...others] = await list(unhurriedPace);
  t.deepEqual(others, []);
  const small = await list(pace);
  t.deepEqual(
    small.map((page) => page.length),
    [250, 250, 250, 150],
  );
  t.deepEqual(small.flat(), whole);
  // The second to the fourth page.
  t.is(pace.stepCount(), 3);
});

test("a page says whether it is the last, unless it ends where the list does", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, json_bytes)
    SELECT gen_random_uuid(), ${accountId}, 'live', 'tree', 1, now() - number * interval '1 second', 300
    FROM generate_series(1, 10) AS number
  `);
  const owner = { accountId, mode: "live", kind: "tree" } as const;
  const readFirst = (limits: { readonly rows: number; readonly bytes: number }) =>
    readPage(db, owner, {}, { limits, now: new Date(), after: null });
  const isLast = async (rows: number, bytes: number) =>
    (await readFirst({ rows, bytes })).page?.isLast;

  t.true(await isLast(11, 3000));
  t.false(await isLast(10, 3000), "a page of all registrations, which could have no more");
  t.false(await isLast(9, 3000));
  t.false(await isLast(11, 2999), "a page without the last registration, which has too many bytes");
  t.false(await isLast(11, 1), "a page of one registration with too many bytes");
});
