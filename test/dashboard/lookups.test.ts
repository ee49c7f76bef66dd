import type { DatabasePool } from "slonik";
import { wrapPool } from "../../db/pools/wrapPool.ts";
import { systemClock } from "../../runtime/clock.ts";
import { getDashboardSlug, createSlugLookup } from "../../modules/dashboard/getDashboardSlug.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { insertAlias } from "../../modules/dashboard/dashboards.sql.ts";
import { lockTable } from "../support/lockWaits.ts";
import { eventually } from "../support/programs.ts";

const test = testWithDatabase();

const MINUTE_MS = 60_000;
/** Of one read of a dashboard. */
const STATEMENTS = 7;

const countStatements = (db: DatabasePool) => {
  let statements = 0;
  const counted = wrapPool(db, (method) => (...parameters) => {
    statements += 1;
    return method(...parameters);
  });
  return { counted, count: () => statements };
};

test("all that shows a dashboard shares one read of the database", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const slug = await getDashboardSlug({ db, clock: systemClock }, id);
  const { counted, count } = countStatements(db);
  const { url } = await startStandaloneApi(t, { db: counted });
  const before = count();
  const responses = await Promise.all(
    ["", ".json", "/shields.json", "/badge.svg", "/card"].map((suffix) =>
      fetch(`${url}/dashboard/${slug}${suffix}`),
    ),
  );
  t.true(responses.every(({ status }) => status === 200));
  const statements = count() - before;
  // Each visitor may look up the slug before the first read has ended.
  t.true(statements <= STATEMENTS + responses.length, `${statements} statements`);
});

test.serial("made-up slugs share queries and are remembered as unknown", async (t) => {
  const { db, databaseUrl } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const slug = await getDashboardSlug({ db, clock: systemClock }, accountId);
  await insertAlias(db, { slug: "Old Page", accountId, createdAt: systemClock.now() });
  const lookUp = createSlugLookup(db, { rememberedMs: MINUTE_MS });
  const lock = await lockTable(t, databaseUrl, "dashboard");
  const madeUp = Array.from({ length: 500 }, (_, index) => `made-up-${index}`);
  const lookups = Promise.all([...madeUp, slug, "Old Page"].map(lookUp));
  await eventually(async () => (await lock.countWaiting()) > 1);

  t.is(await lock.countWaiting(), 2, "two queries run at a time");
  await lock.release();
  t.deepEqual(await lookups, [...madeUp.map(() => null), slug, slug]);

  const again = await lockTable(t, databaseUrl, "dashboard");
  t.deepEqual(
    await Promise.all(madeUp.map(lookUp)),
    madeUp.map(() => null),
    "without a query",
  );
  await again.release();
});

test.serial("failed queries fail their lookups only, and nothing is remembered", async (t) => {
  const { db, databaseUrl } = t.context;
  const lookUp = createSlugLookup(db, { rememberedMs: MINUTE_MS });
  const lock = await lockTable(t, databaseUrl, "dashboard");
  // Two queries look these up, and the last name waits for the next one.
  const failing = Promise.allSettled(
    Array.from({ length: 400 }, (_, index) => lookUp(`failing-${index}`)),
  );
  const waiting = lookUp("waiting");
  await eventually(async () => (await lock.countWaiting()) === 2);
  await eventually(async () => (await lock.cancelWaiting()) === 2);
  t.true((await failing).every(({ status }) => status === "rejected"));
  await lock.release();

  t.is(await waiting, null);
  t.is(await lookUp("failing-0"), null);
});

test.serial("other sites may follow an imported slug, and read why there is nothing", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const slug = await getDashboardSlug({ db, clock: systemClock }, accountId);
  await insertAlias(db, { slug: "old-page", accountId, createdAt: systemClock.now() });
  const outage = { begun: false };
  const breakable = wrapPool(db, (method) => (...parameters) => {
    if (outage.begun) {
      throw new Error("out of order");
    }
    return method(...parameters);
  });
  const { url } = await startStandaloneApi(t, { db: breakable });

  for (const suffix of ["", ".json", "/shields.json", "/badge.svg", "/card"]) {
    const readers = suffix === "" ? null : "*";
    const moved = await fetch(`${url}/dashboard/old-page${suffix}`, { redirect: "manual" });
    t.is(moved.status, 301);
    t.is(moved.headers.get("Location"), `${url}/dashboard/${slug}${suffix}`);
    t.is(moved.headers.get("Access-Control-Allow-Origin"), readers, suffix);
    outage.begun = true;
    const failed = await fetch(`${url}/dashboard/unread${suffix}`);
    t.is(failed.status, 500);
    t.is(failed.headers.get("Access-Control-Allow-Origin"), readers, suffix);
    outage.begun = false;
  }
});
