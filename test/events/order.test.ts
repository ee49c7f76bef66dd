import type { CommonQueryMethods, DatabasePool } from "slonik";
import { sql } from "../../db/sql.ts";
import { deleteOldData } from "../../modules/support/deleteOldData.ts";
import { openClient, openTestPool, testWithDatabase } from "../support/database.ts";
import { setTimeout as delay } from "node:timers/promises";
import { v7 as newId } from "uuid";
import type { FeedEvent } from "../../modules/feed/feed.sql.ts";
import { readFeedHorizon } from "../../modules/feed/feed.sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { AccountMode } from "../../modules/records/owner.rules.ts";
import { EVENT_TYPES, eventIdOf, parseEventId } from "../../modules/events/events.rules.ts";
import { recordEvent } from "../../modules/events/recordEvent.ts";
import { readFeed, readWholeFeed } from "../../modules/feed/readFeed.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { createTestOrganization, registerFor, registrationOf } from "../support/factories.ts";
import { whileOpen } from "../support/lockWaits.ts";
import { createRandom } from "../support/random.ts";
import { refunded, readEvents } from "./readEvents.ts";
import { readFile } from "node:fs/promises";
import { claimDeliveries } from "../../modules/events/attempts.sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import type { EventType } from "../../modules/events/events.rules.ts";
import { createWebhookEndpoint } from "../../modules/events/manageWebhookEndpoints.ts";
import { createMovableClock } from "../support/movableClock.ts";

const test = testWithDatabase();

const WRITERS = 64;
const WRITES = 12;
const DEADLINE_MS = 150_000;

const readPage = (
  db: DatabasePool,
  owner: AccountMode,
  startingAfter: string | null = null,
  limit = 1000,
) => readFeed({ db, clock: systemClock }, owner, { types: EVENT_TYPES, startingAfter, limit });

/** Follows the feed until it has a number of events, and returns their ids. */
const follow = async (
  db: DatabasePool,
  owner: AccountMode,
  { limit, until }: { readonly limit: number; readonly until: (events: number) => boolean },
): Promise<readonly string[]> => {
  const ids: string[] = [];
  const deadline = Date.now() + DEADLINE_MS;
  while (!until(ids.length)) {
    if (Date.now() > deadline) {
      throw new Error(`The feed has only ${ids.length} events.`);
    }
    const page = await readPage(db, owner, ids.at(-1) ?? null, limit);
    ids.push(...page.events.map(eventIdOf));
    if (page.events.length === 0) {
      await delay(2);
    }
  }
  return ids;
};

test("a reader beside writers whose transactions last differently long sees every event once, in the order in which it stays", async (t) => {
  const { db, databaseUrl } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const owner = { accountId, mode: "live" } as const;
  const pool = await openTestPool(t, databaseUrl, 24);
  const oneProcess = createRegistrationWriter({ db: pool, clock: systemClock });
  const anotherProcess = createRegistrationWriter({ db: pool, clock: systemClock });
  const committed = new Set<string>();
  const random = createRandom(1);
  let finished = false;

  /** Records two events with a pause, and then takes them back or not. */
  const writeEvents = async (name: string): Promise<void> => {
    const isKept = random.next() < 0.8;
    try {
      await pool.transaction(async (transaction) => {
        await recordEvent(transaction, owner, systemClock.now(), refunded(`${name}-a`));
        const seconds = random.next() * 0.03;
        await transaction.query(sql.typeAlias("void")`SELECT FROM pg_sleep(${seconds})`);
        await recordEvent(transaction, owner, systemClock.now(), refunded(`${name}-b`));
        if (!isKept) {
          throw new RangeError("taken back");
        }
      });
    } catch (error) {
      if (!(error instanceof RangeError)) {
        throw error;
      }
    }
    if (isKept) {
      committed.add(`${name}-a`).add(`${name}-b`);
    }
  };

  const write = async (writer: number): Promise<void> => {
    for (let index = 0; index < WRITES; index += 1) {
      if (writer % 4 === 0) {
        const process = writer % 8 === 0 ? oneProcess : anotherProcess;
        const kind = index % 2 === 0 ? "tree" : "bottle";
        const { registration } = await process.register(registrationOf(accountId, { kind }));
        committed.add(registration.id);
      } else {
        await writeEvents(`${writer}-${index}`);
      }
    }
  };

  const writeAll = async (): Promise<void> => {
    await Promise.all(Array.from({ length: WRITERS }, (_, index) => write(index)));
    finished = true;
  };
  const writing = writeAll();
  const until = (events: number): boolean => finished && events >= committed.size;
  // One is always at the end of the feed, and the other lags behind.
  const readers = [1000, 7].map((limit) => follow(db, owner, { limit, until }));
  await writing;
  const [ids = [], laggingIds] = await Promise.all(readers);

  const events: FeedEvent[] = [];
  for await (const page of readWholeFeed({ db, clock: systemClock }, owner, {})) {
    events.push(...page);
  }
  const whole = events.map(eventIdOf);
  const seen = events.map(({ data }) => ("registration_id" in data ? data.registration_id : ""));
  t.deepEqual(ids, whole, "nothing has appeared between events that were read before");
  t.deepEqual(laggingIds, whole);
  t.deepEqual(ids, ids.toSorted());
  t.is(new Set(ids).size, ids.length);
  t.deepEqual(seen.toSorted(), [...committed].toSorted());
});

test("an open transaction holds later events back, which the feed says, and they follow its own", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const owner = { accountId, mode: "test" } as const;
  const heldBackSince = new Date(Date.now() + 1000);
  await whileOpen(
    db,
    (transaction) => recordEvent(transaction, owner, new Date(), refunded("first")),
    async () => {
      await recordEvent(db, owner, heldBackSince, refunded("second"));
      t.like(await readPage(db, owner), { events: [], hasMore: false, heldBackSince });
      t.true((await readFeedHorizon(db)).isOpen);
    },
  );

  const shown = await readEvents({ db, clock: systemClock }, owner);
  const names = shown.map(({ data }) => ("registration_id" in data ? data.registration_id : ""));
  t.deepEqual(names, ["first", "second"]);
});

const onlyRead = async (transaction: CommonQueryMethods): Promise<void> => {
  // Other files' transactions may hold the feed back for longer than a connection may be idle.
  await transaction.query(sql.typeAlias("void")`SET LOCAL idle_in_transaction_session_timeout = 0`);
  await transaction.query(sql.typeAlias("void")`SELECT FROM account LIMIT 1`);
};

test("a transaction that only reads holds nothing back", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const owner = { accountId, mode: "live" } as const;
  await whileOpen(db, onlyRead, async () => {
    await recordEvent(db, owner, systemClock.now(), refunded("beside"));
    t.is((await readEvents({ db, clock: systemClock }, owner)).length, 1);
  });
});

test("the ids of events sort as the feed does", (t) => {
  const positions = [9n, 10n, 2n ** 40n, 2n ** 63n].map((transactionId) => ({
    transactionId,
    id: newId(),
  }));
  const ids = positions.map(eventIdOf);
  t.deepEqual(ids.toSorted(), ids);
  t.deepEqual(ids.map(parseEventId), positions);
  t.is(parseEventId("evt_1"), null);
  t.is(parseEventId(`${ids[0]}0`), null);
});

const NEVER = new AbortController().signal;

const failed = {
  type: "usage.failed" as const,
  data: { kind: "tree" as const, count: 1, registered_at: "2026-01-01T00:00:00.000Z" },
};

test.serial("events are deleted after 30 days; who may miss one gets event_gone", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const owner: AccountMode = { accountId, mode: "live" };
  const clock = createMovableClock("2031-01-01T00:00:00.000Z");
  const read = async (startingAfter: string | null, types: readonly EventType[] = EVENT_TYPES) =>
    (await readEvents({ db, clock }, owner, { types, startingAfter })).map(eventIdOf);
  const deleteOld = async () => (await deleteOldData({ db, clock }, NEVER)).events;

  await recordEvent(db, owner, clock.now(), failed);
  await recordEvent(db, owner, clock.now(), refunded("1"));
  await recordEvent(db, owner, clock.now(), refunded("2"));
  const [failure = "", first = "", second = ""] = await read(null);
  clock.set("2031-01-04T00:00:00.000Z");
  await recordEvent(db, owner, clock.now(), refunded("3"));
  clock.set("2031-01-31T00:00:00.000Z");
  t.is((await read(null)).length, 4, "none is older than 30 days");
  t.is(await deleteOld(), 0);

  clock.set("2031-02-02T00:00:00.000Z");
  t.is(await deleteOld(), 1);
  t.is(await deleteOld(), 0);
  const kept = await read(null);
  t.is(kept.length, 1);
  t.deepEqual(await read(second), kept, "a client that has read everything continues");
  t.deepEqual(await read(failure, ["usage.failed"]), []);
  await t.throwsAsync(read(failure), { code: "event_gone", message: /older than 30 days/u });
  await t.throwsAsync(read(first), { code: "event_gone", message: /the event is unknown/u });
});

test.serial("registrations leave the feed after 30 days", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const clock = createMovableClock("2031-01-01T00:00:00.000Z");
  const register = () => registerFor(db, accountId, { clock });
  const read = async (startingAfter: string | null) =>
    (await readEvents({ db, clock }, { accountId, mode: "live" }, { startingAfter })).map(
      eventIdOf,
    );
  await register();
  clock.set("2031-01-03T00:00:00.000Z");
  await register();
  await register();
  const [first = "", second = "", third = ""] = await read(null);
  clock.set("2031-02-01T00:00:00.000Z");
  t.deepEqual(await read(null), [second, third]);
  t.deepEqual(await read(first), [second, third]);
  clock.set("2031-02-04T00:00:00.000Z");
  t.deepEqual(await read(null), []);
  t.deepEqual(await read(third), []);
  await t.throwsAsync(read(first), { code: "event_gone", message: /older than 30 days/u });
});

/** Returns the statements with which docs/backup.md lets operators renumber events. */
const readRenumbering = async (): Promise<string> => {
  const page = await readFile(new URL("../../docs/backup.md", import.meta.url), "utf8");
  const [, section = ""] = page.split("\n## Events after a restored dump\n");
  return /```sql\n(BEGIN;.*?)```/su.exec(section)?.[1] ?? "";
};

test.serial("records of a server with higher transactions fail until renumbered", async (t) => {
  const { db, owner, ownerUrl } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const account: AccountMode = { accountId, mode: "live" };
  const clock = { now: () => new Date() };
  const webhookSettings = { allowsHttp: false, allowedNetworks: [] };
  const { endpoint } = await createWebhookEndpoint(
    { db, clock, actor: SERVICE, webhookSettings },
    account,
    { url: "https://shop.example/hook", types: null, description: "" },
  );
  const read = () => readEvents({ db, clock }, account);
  await recordEvent(db, account, clock.now(), refunded("copied"));
  await owner.query(sql.typeAlias("void")`
    UPDATE event SET transaction_id = '9000000000' WHERE account_id = ${accountId}
  `);
  await owner.query(sql.typeAlias("void")`
    UPDATE webhook_delivery SET transaction_id = '9000000000' WHERE endpoint_id = ${endpoint.id}
  `);
  await t.throwsAsync(read(), { message: /come from another PostgreSQL server/u });

  await (await openClient(t, ownerUrl)).query(await readRenumbering());

  const [delivery] = await claimDeliveries(db, [endpoint.id], clock.now());
  t.is(delivery?.transactionId, 9_000_000_000n, "its receiver may have it under this id");
  await recordEvent(db, account, clock.now(), refunded("new"));
  const events = await read();
  t.is(events.length, 1);
  t.like(events[0], { data: { registration_id: "new" } });
});
