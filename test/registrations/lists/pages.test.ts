import { randomUUID } from "node:crypto";
import { z } from "zod";
import type { Owner } from "../../../modules/records/owner.rules.ts";
import type { ListPosition } from "../../../modules/records/listPositions.sql.ts";
import { readPage } from "../../../modules/registrations/registrationPages.sql.ts";
import { sql } from "../../../db/sql.ts";
import type {
  Registration,
  RegistrationFilter,
} from "../../../modules/registrations/registrations.rules.ts";
import { registrationsIn } from "../../api/contract.ts";
import { startApiOf } from "../../api/startStandaloneApi.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { createRandom } from "../../support/random.ts";
import { insertRegistrations } from "../../../modules/registrations/registrations.sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import {
  FIXED_JSON_BYTES,
  presentRegistration,
} from "../../../modules/registrations/presentRegistration.rules.ts";
import { listRegistrations } from "../../../modules/registrations/listRegistrations.ts";
import type { Metadata } from "../../../modules/records/fields.rules.ts";
import { countCalls } from "../../support/countCalls.ts";

const test = testWithDatabase();

const LISTS = 100;
const ATTRIBUTIONS = ["", "a", "b", "c"];
const FIRST_SECOND = Date.UTC(2026, 0, 1) / 1000;
const SECONDS = 40;

const storedRow = z.strictObject({
  id: z.uuid(),
  accountId: z.uuid(),
  mode: z.string(),
  kind: z.string(),
  createdAt: z.date(),
  attribution: z.string(),
  parity: z.int(),
  bytes: z.int(),
});

test("pages have the registrations that match, up to their limits", async (t) => {
  const { db } = t.context;
  const accounts = [await createTestOrganization(db), await createTestOrganization(db)];
  const accountIds = sql.array(
    accounts.map(({ id }) => id),
    "uuid",
  );
  // Several of the same time, of both accounts, modes and kinds.
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration
      (id, account_id, mode, kind, count, created_at, attribution, metadata, json_bytes)
    SELECT
      gen_random_uuid(), account_id, mode, kind, number,
      to_timestamp(${FIRST_SECOND}) + number % ${SECONDS} * interval '1 second' + number % 3 * interval '1 microsecond',
      (ARRAY['', 'a', 'b', 'c'])[number % 4 + 1], jsonb_build_object('parity', number % 2), 200 + number % 7 * 100
    FROM unnest(${accountIds}) AS account_id
    CROSS JOIN unnest(ARRAY['live', 'test']) AS mode
    CROSS JOIN unnest(ARRAY['tree', 'bottle']) AS kind
    CROSS JOIN generate_series(1, 120) AS number
  `);
  const stored = await db.any(sql.type(storedRow)`
    SELECT
      id, account_id AS "accountId", mode, kind, created_at AS "createdAt", attribution,
      (metadata ->> 'parity')::integer AS parity, json_bytes AS bytes
    FROM registration
    WHERE account_id = ANY(${accountIds})
    ORDER BY created_at DESC, id DESC
  `);
  const bytesOf = new Map(stored.map(({ id, bytes }) => [id, bytes]));
  const random = createRandom(17);
  const randomTime = (): Date =>
    new Date((FIRST_SECOND + random.below(SECONDS + 2) - 1) * 1000 + random.below(2));
  const randomFilter = (): RegistrationFilter => ({
    ...(random.below(2) === 0 ? {} : { attribution: random.pick(ATTRIBUTIONS) }),
    ...(random.below(2) === 0 ? {} : { from: randomTime() }),
    ...(random.below(2) === 0 ? {} : { until: randomTime() }),
    ...(random.below(4) === 0 ? { metadata: { parity: random.below(2) } } : {}),
    ...(random.below(8) === 0 ? { id: random.pick(stored).id } : {}),
  });
  const owners: readonly Owner[] = accounts.flatMap(({ id: accountId }) =>
    (["live", "test"] as const).flatMap((mode) =>
      (["tree", "bottle"] as const).map((kind) => ({ accountId, mode, kind })),
    ),
  );
  for (let index = 0; index < LISTS; index += 1) {
    const owner = random.pick(owners);
    const filter = randomFilter();
    const limits = { rows: 1 + random.below(101), bytes: random.pick([1000, 3000, 1_000_000]) };
    const { id, attribution, from, until, metadata } = filter;
    const matching = stored.filter(
      (row) =>
        row.accountId === owner.accountId &&
        row.mode === owner.mode &&
        row.kind === owner.kind &&
        (id === undefined || row.id === id) &&
        (attribution === undefined || row.attribution === attribution) &&
        (from === undefined || row.createdAt >= from) &&
        (until === undefined || row.createdAt < until) &&
        (metadata === undefined || row.parity === metadata["parity"]),
    );
    const shown: string[] = [];
    let after: ListPosition | null = null;
    do {
      const options = { after, limits, now: new Date() };
      const { page, totals } = await readPage(db, owner, filter, options);
      t.deepEqual(totals, { all: 0, month: 0 });
      const ids = Array.from(page?.registrations ?? [], (each) => each.id);
      const bytes = ids.reduce((sum, each) => sum + (bytesOf.get(each) ?? 0), 0);
      t.true(ids.length <= limits.rows && (ids.length === 1 || bytes <= limits.bytes));
      shown.push(...ids);
      after = page?.isLast === false ? page.last : null;
    } while (after !== null);
    t.deepEqual(
      shown,
      Array.from(matching, (row) => row.id),
    );
  }
});

test("a list that fits into a chunk has a length, and a longer one is sent in chunks", async (t) => {
  const { call, apiKeyTest: key } = await startApiOf(t);
  const items = Array.from({ length: 1000 }, () => ({ count: 1 }));
  await call("POST", "/plant/trees/batch", { key, body: { items } });
  const read = async (query: string) => {
    const { headers, body } = await call("GET", `/plant/trees${query}`, { key });
    return {
      length: headers.get("Content-Length"),
      encoding: headers.get("Transfer-Encoding"),
      count: registrationsIn(body, "tree").length,
      bytes: JSON.stringify(body).length,
    };
  };

  const page = await read("?first=100");
  t.is(page.count, 100);
  t.is(page.length, String(page.bytes));
  const whole = await read("");
  t.deepEqual(whole, { length: null, encoding: "chunked", count: 1000, bytes: whole.bytes });
});

const TEXTS = ["", "\\N", "\\", "a\tb\nc\r\u0001\u001E\u2028", 'quoted "text"', "é𝒳", "\u000B\f\b"];

/** In the order in which PostgreSQL stores their keys. */
const METADATA = [
  {},
  { a: { b: null, c: [1.5, -0.25, 1e-7, 1e300, 2 ** 53] }, z: 1 },
  { "\\N": "\\n", é: ["𝒳", true, false], 'a "b"\t': "\\\\" },
];

test("a whole list, a page and NDJSON write a registration as its POST did", async (t) => {
  const { db } = t.context;
  const { url, key, id, post } = await startApiOf(t);
  const created: unknown[] = [];
  for (const [index, text] of TEXTS.entries()) {
    const { body, status } = await post("/plant/trees", {
      count: index === 0 ? 9_007_199_254_740 : 1,
      attribution: text,
      idempotency_key: text,
      metadata: METADATA[index % METADATA.length],
    });
    t.is(status, 200);
    created.push(...registrationsIn(body, "tree"));
  }
  // Imports have such times.
  await db.query(sql.typeAlias("void")`
    UPDATE registration SET created_at = date_trunc('milliseconds', created_at) + interval '999 microseconds'
    WHERE account_id = ${id}
  `);

  const read = async (query: string, accept = "application/json"): Promise<string> => {
    const headers = { Authorization: key, Accept: accept };
    return (await fetch(`${url}/plant/trees${query}`, { headers })).text();
  };
  const whole = await read("");
  const newestFirst = created.toReversed();
  t.true(whole.endsWith(`"tree_details":${JSON.stringify(newestFirst)}}`), whole);
  t.is(await read("?first=100"), whole);
  const lines = newestFirst.map((registration) => `${JSON.stringify(registration)}\n`);
  t.is(await read("", "application/x-ndjson"), lines.join(""));
});

const ONE_ROW = { limits: { rows: 1, bytes: Number.MAX_SAFE_INTEGER }, now: new Date() } as const;

/** Mostly commas and numbers with an exponent. */
const EXTREMES: readonly Metadata[] = [1, 1e300, -1e300, 5e-324, 0.1, 2 ** 53, "", "\t𝒳", {}].map(
  (value) => ({
    a: Array.from({ length: 2000 }, () => value),
    [JSON.stringify(value)]: { é: null },
  }),
);

const storedMaximum = z.strictObject({ id: z.uuid(), maximum: z.int() });

test("no registration's JSON in a list is longer than its stored maximum", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const entries = TEXTS.flatMap((attribution, index) =>
    [...EXTREMES, ...METADATA].map((metadata, place) => {
      const id = randomUUID();
      const idempotencyKey = `${attribution}${index} ${place}`;
      const numbers = { count: 9_007_199_254_740, fractionalCount: 0.123_456_789_012_345_68 };
      const given = { ...numbers, idempotencyKey, attribution, metadata };
      return Object.assign(registrationOf(accountId), given, { id });
    }),
  );
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

test("the fixed part of that maximum is what the other fields of a registration need at most", (t) => {
  const extreme: Registration = {
    id: randomUUID(),
    importedId: null,
    count: Number.MAX_SAFE_INTEGER,
    refundedCount: Number.MAX_SAFE_INTEGER,
    createdAt: new Date("9999-12-31T23:59:59.999Z"),
    // No other number of at least 0 has more digits in JSON.
    fractionalCount: 0.000_001_234_567_890_123_456_7,
    idempotencyKey: "",
    attribution: "",
    metadata: {},
  };
  const withEmpty = Buffer.byteLength(JSON.stringify(presentRegistration(extreme)));
  t.is(withEmpty - '""""{}'.length, FIXED_JSON_BYTES);
});

test("a list is read in steps, of which the first does not yield to recording", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, attribution, metadata, json_bytes)
    SELECT
      gen_random_uuid(), ${accountId}, 'live', 'tree', number, now() - number * interval '1 second', '', '{}', 300
    FROM generate_series(1, 1100) AS number
  `);
  const yielding = countCalls(db);
  const { pages } = listRegistrations(
    { db, lists: db, bulkLists: yielding.db, clock: systemClock },
    { accountId, mode: "live", kind: "tree" },
    {},
    { startingAfter: null, limit: null },
  );

  const counts: (readonly number[])[] = [];
  for await (const { rows } of pages) {
    counts.push(Array.from(rows, ({ count }) => count));
  }

  const lengths = counts.map(({ length }) => length);
  t.deepEqual(lengths, [500, 500, 100]);
  const all = Array.from({ length: 1100 }, (_, index) => index + 1);
  t.deepEqual(counts.flat(), all);
  t.is(yielding.count(), 2);
});
