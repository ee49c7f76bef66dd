import type { Owner } from "../../../modules/records/owner.rules.ts";
import {
  findListPosition,
  readPage,
  hasShortPages,
  readShortPage,
} from "../../../modules/registrations/registrationPages.sql.ts";
import { sql } from "../../../db/sql.ts";
import type { RegistrationFilter } from "../../../modules/registrations/registrations.rules.ts";
import { registrationsIn } from "../../api/contract.ts";
import { startApiOf } from "../../api/startStandaloneApi.ts";
import { openTestCopies, testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { createRandom } from "../../support/random.ts";

const test = testWithDatabase();

const PAGES = 400;
const ATTRIBUTIONS = ["a", "b", "c"];
const FIRST_SECOND = Date.UTC(2026, 0, 1) / 1000;
const SECONDS = 40;

test("a short page is the same as one that is copied", async (t) => {
  const { db } = t.context;
  const accounts = [await createTestOrganization(db), await createTestOrganization(db)];
  // Several of the same time, of both accounts, modes and kinds.
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration
      (id, account_id, mode, kind, count, created_at, attribution, metadata, json_bytes)
    SELECT
      gen_random_uuid(), account_id, mode, kind, number,
      to_timestamp(${FIRST_SECOND}) + number % ${SECONDS} * interval '1 second' + number % 3 * interval '1 microsecond',
      (ARRAY['', 'a', 'b', 'c'])[number % 4 + 1], jsonb_build_object('number', number), 200 + number % 7 * 100
    FROM unnest(${sql.array(
      accounts.map(({ id }) => id),
      "uuid",
    )}) AS account_id
    CROSS JOIN unnest(ARRAY['live', 'test']) AS mode
    CROSS JOIN unnest(ARRAY['tree', 'bottle']) AS kind
    CROSS JOIN generate_series(1, 120) AS number
  `);
  const copies = await openTestCopies(t, db);
  const random = createRandom(17);
  const randomTime = (): Date =>
    new Date((FIRST_SECOND + random.below(SECONDS + 2) - 1) * 1000 + random.below(2));
  const randomFilter = (): RegistrationFilter => ({
    ...(random.below(2) === 0 ? {} : { attribution: random.pick(ATTRIBUTIONS) }),
    ...(random.below(2) === 0 ? {} : { from: randomTime() }),
    ...(random.below(2) === 0 ? {} : { until: randomTime() }),
  });
  const owners: readonly Owner[] = accounts.flatMap(({ id: accountId }) =>
    (["live", "test"] as const).flatMap((mode) =>
      (["tree", "bottle"] as const).map((kind) => ({ accountId, mode, kind })),
    ),
  );
  let shown = 0;
  for (let index = 0; index < PAGES; index += 1) {
    const owner = random.pick(owners);
    const filter = randomFilter();
    const limits = { rows: 1 + random.below(101), bytes: random.pick([100, 3000, 1_000_000]) };
    const start = { rows: 1 + random.below(60), bytes: 1_000_000 };
    const options = { isBulk: false };
    const first = await readPage(copies, owner, {}, { ...options, limits: start, after: null });
    // As the first page of a list is given where it starts.
    const position =
      first && random.below(2) === 0 ? await findListPosition(db, owner, first.last.id) : null;
    t.true(hasShortPages(filter, position));

    const copied = await readPage(copies, owner, filter, { ...options, limits, after: position });
    const { page, totals } = await readShortPage(db, owner, filter, {
      ...options,
      limits,
      after: position,
      now: new Date(),
    });

    t.deepEqual(totals, { all: 0, month: 0 });
    t.is(page === null, copied === null);
    // A copied page does not know that it is the last one if it has as many bytes as it may.
    t.true(page === null || page.isLast || copied?.isLast === false);
    if (page?.isLast === true) {
      t.is(await readPage(copies, owner, filter, { ...options, limits, after: page.last }), null);
    }
    t.is(page?.last.id, copied?.last.id);
    const registrations = [...(page?.registrations ?? [])];
    t.deepEqual(registrations, [...(copied?.registrations ?? [])]);
    shown += registrations.length;
  }
  t.true(shown > PAGES / 4);
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
