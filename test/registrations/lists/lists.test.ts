import { finished } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { DatabasePool } from "slonik";
import { openReads } from "../../../db/openDatabase.ts";
import { sql } from "../../../db/sql.ts";
import { testWithDatabase } from "../../support/database.ts";
import { lockTable } from "../../support/lockWaits.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { eventually } from "../../support/programs.ts";
import { eachKind, KIND_NAMES, registrationsIn } from "../../api/contract.ts";
import { startApiOf } from "../../api/startStandaloneApi.ts";
import { fillTrees, openList, watchPages } from "./listSetup.ts";

const test = testWithDatabase();
const forBothKinds = eachKind(test);

forBothKinds("a range includes both of its days in UTC, to the millisecond", async (t, kind) => {
  const { path, total } = KIND_NAMES[kind];
  const clock = createMovableClock("2026-02-27T23:59:59.999Z");
  const { get, post } = await startApiOf(t, { clock });
  for (const time of [
    "2026-02-27T23:59:59.999Z",
    "2026-02-28T00:00:00.000Z",
    "2026-02-28T23:59:59.999Z",
    "2026-03-01T00:00:00.000Z",
  ]) {
    clock.set(time);
    await post(path, { count: 1, attribution: time });
  }
  const list = async (query: string) =>
    registrationsIn((await get(`${path}?${query}`)).body, kind).map((each) => each["attribution"]);

  t.deepEqual(await list("created_at=2026-02-28&end_at=2026-02-28"), [
    "2026-02-28T23:59:59.999Z",
    "2026-02-28T00:00:00.000Z",
  ]);
  t.deepEqual(await list("created_at=2026-03-01"), ["2026-03-01T00:00:00.000Z"]);
  t.deepEqual(await list("end_at=2026-02-27"), ["2026-02-27T23:59:59.999Z"]);
  t.is((await list("created_at=0001-01-01&end_at=9999-12-31")).length, 4);
  const filtered = await get(`${path}?created_at=2026-03-01`);
  t.is(filtered.body[total], 4);
});

test("a metadata filter finds registrations on any page, and reads no more for many pairs", async (t) => {
  const { db } = t.context;
  let pages = 0;
  const reads = watchPages(db, { before: () => (pages += 1) });
  const { url, id, key, get } = await startApiOf(t, { reads });
  await fillTrees(db, id, 9000);
  const pairs = Object.fromEntries(
    Array.from({ length: 20 }, (_, index) => [`key ${index}`, index]),
  );
  await db.query(sql.typeAlias("void")`
    UPDATE registration
    SET metadata = ${JSON.stringify({ ...pairs, more: true })}::jsonb
    WHERE account_id = ${id} AND id = (
      SELECT id FROM registration WHERE account_id = ${id} ORDER BY created_at, id LIMIT 1
    )
  `);
  const find = async (metadata: unknown) => {
    pages = 0;
    const filter = encodeURIComponent(JSON.stringify(metadata));
    return get(`/plant/trees?metadata=${filter}`);
  };

  t.is(registrationsIn((await find({ more: true })).body, "tree").length, 1);
  const pagesOfOnePair = pages;
  t.is(registrationsIn((await find(pairs)).body, "tree").length, 1);
  t.is(pages, pagesOfOnePair);
  t.is(registrationsIn((await find({ more: false })).body, "tree").length, 0);

  // Eighteen pages. Written while nothing is found yet, so that a proxy does not take the connection for an idle one.
  const response = await fetch(`${url}/plant/trees?metadata={"more":false}`, {
    headers: { Authorization: key },
  });
  t.regex(await response.text(), /"tree_details":\[ {17}\]\}$/u);

  const rejected = await find({ ...pairs, more: true });
  t.like(rejected, { status: 400, body: { error: "metadata: must have at most 20 pairs" } });
});

test("an id is found in upper case as well", async (t) => {
  const { get, post } = await startApiOf(t);
  const { body } = await post("/plant/trees", { count: 1 });
  const id = registrationsIn(body, "tree")[0]?.id ?? "";

  const found = await get(`/plant/trees?id=${id.toUpperCase()}`);

  t.deepEqual(found.body, body);
});

test("a client that stops reading stops the queries, and one that disconnects ends them", async (t) => {
  const { db } = t.context;
  let pages = 0;
  const reads = watchPages(db, { before: () => (pages += 1) });
  const { id, key, url, logged } = await startApiOf(t, { reads });
  // Many times what the buffers of the connection hold.
  await fillTrees(db, id, 20_000, { note: "x".repeat(2000) });
  const startedAtMs = performance.now();
  const whole = await openList(url, key);
  await finished(whole.resume());
  const wholeMs = performance.now() - startedAtMs;
  const wholePages = pages;

  pages = 0;
  const response = await openList(url, key);
  // Without back-pressure the whole list would be read within this time.
  await delay(2 * wholeMs + 500);
  t.true(pages >= 1 && pages < wholePages, `${pages} of ${wholePages} pages were read`);

  response.destroy();
  await eventually(() => logged().some((line) => line["aborted"] === true));
  t.true(pages < wholePages);
  t.false(logged().some((line) => line["msg"] === "request failed"));
  const last = logged().findLast((line) => line["msg"] === "request");
  t.like(last, { route: "/plant/trees", aborted: true });
});

test("an error in the middle of a list breaks the connection instead of ending the document", async (t) => {
  const { db } = t.context;
  const reads = watchPages(db, {
    before: (page) => (page === 2 ? Promise.reject(new Error("broken")) : undefined),
  });
  const { id, key, url, logged } = await startApiOf(t, { reads });
  await fillTrees(db, id, 10_000);

  const response = await fetch(`${url}/plant/trees`, {
    headers: { Authorization: key, "X-Request-Id": "broken-list" },
  });

  t.is(response.status, 200);
  await t.throwsAsync(response.text());
  const failure = logged().find((line) => line["msg"] === "request failed");
  t.like(failure, { requestId: "broken-list" });
});

// The next tests are serial, since they break the connections that the others use.

/** Returns the number of connections once their backends have ended, so that no list can still be given a dying one. */
const endConnections = (owner: DatabasePool, state: "active" | "idle"): Promise<number> =>
  owner
    .query(sql.typeAlias("void")`
      SELECT FROM pg_stat_activity, pg_terminate_backend(pid, 10000)
      WHERE datname = current_database() AND usename <> current_user AND state = ${state}
    `)
    .then(({ rowCount }) => rowCount);

test.serial("a list that takes too long is a 503 that says what to do", async (t) => {
  const { databaseUrl } = t.context;
  const reads = await openReads({ DATABASE_URL: databaseUrl }, 100);
  t.teardown(() => reads.end());
  const { get, logged } = await startApiOf(t, { reads });
  const lock = await lockTable(t, databaseUrl, "registration");

  const { status, body, headers } = await get("/plant/trees");

  await lock.release();
  t.is(status, 503);
  t.is(headers.get("Retry-After"), "1");
  t.deepEqual(body, {
    error:
      "the query takes too long; narrow its filters, for example to an id, an email address or a shorter range of days",
  });
  t.false(logged().some((line) => line["msg"] === "request failed"));
});

test.serial("lists work again after the database ends idle or active connections", async (t) => {
  const { db, databaseUrl, owner } = t.context;
  const { id, get } = await startApiOf(t);
  await fillTrees(db, id, 5);
  const expectFive = async (): Promise<void> => {
    t.is(registrationsIn((await get("/plant/trees")).body, "tree").length, 5);
  };
  await expectFive();

  t.true((await endConnections(owner, "idle")) > 0);

  await expectFive();
  const lock = await lockTable(t, databaseUrl, "registration");
  const list = get("/plant/trees");
  await eventually(async () => (await endConnections(owner, "active")) > 0);
  const { status } = await list;
  t.is(status, 500);
  await lock.release();
  await expectFive();
});
