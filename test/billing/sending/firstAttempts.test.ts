import type { DatabasePool } from "slonik";
import { lockCallRate, recordReservation } from "../../../modules/billing/sending/callRate.sql.ts";
import { listMeterEvents } from "../../../modules/billing/meterEventReports.sql.ts";
import { beginAttempts, recordDelays } from "../../../modules/billing/sending/attempts.sql.ts";
import { listWaitingStreams } from "../../../modules/billing/sending/waitingStreams.sql.ts";
import { sql } from "../../../db/sql.ts";
import { shardOf } from "../../../db/shards.rules.ts";
import { decideNextStep } from "../../../modules/billing/sending/decideNextStep.rules.ts";
import { startLease } from "../../../modules/billing/sending/attemptLease.ts";
import { sealMeterEvents } from "../../../modules/billing/sending/sealMeterEvents.ts";
import type { UnsealedStream } from "../../../modules/billing/sending/sealMeterEvents.ts";
import { beginSending } from "../../../modules/billing/sending/sendMeterEvent.ts";
import { awaitBlocked } from "../../support/lockWaits.ts";
import { testWithDatabase } from "../../support/database.ts";
import { runSender, sealAll, setUpShards } from "./shardSetup.ts";
import type { ShardSetup } from "./shardSetup.ts";

// Serial, because a shard's sender serves everything that waits in the database of the file.
const test = testWithDatabase();

const streamsOf = ({ organizations }: ShardSetup): readonly UnsealedStream[] =>
  organizations.map(({ stream }) => ({ ...stream, firstSecond: 0 }));

/** Seals and begins what is ready of every organization, as a shard's sender does before it calls the processor. */
const sealAndBegin = (setup: ShardSetup) =>
  sealMeterEvents(setup.deps, streamsOf(setup), startLease(setup.deps));

const UNATTEMPTED = { state: "pending", attempts: 0, firstAttemptAt: null, leasedUntil: null };

const pendingEvents = async (setup: ShardSetup) => {
  const ids = new Set(streamsOf(setup).map(({ accountId }) => accountId));
  const pending = { state: "pending", accountId: null, limit: 100 } as const;
  return (await listMeterEvents(setup.deps.db, pending)).filter(({ accountId }) =>
    ids.has(accountId),
  );
};

test.serial("the sealing transaction begins the first attempts, with a lease", async (t) => {
  const setup = await setUpShards(t, 3);
  const { organizations, deps, pass, reportAll } = setup;
  await Promise.all(organizations.map(({ register }) => register(2)));
  pass(5);
  const sealedAt = deps.clock.now();

  const sealings = await sealAndBegin(setup);

  t.true(sealings.every((sealing) => sealing.kind === "event" && sealing.startsAtMs !== null));
  const events = await pendingEvents(setup);
  t.is(events.length, 3);
  for (const event of events) {
    t.like(event, {
      state: "pending",
      attempts: 1,
      firstAttemptAt: sealedAt,
      leasedUntil: new Date(sealedAt.getTime() + 15_000),
      mayBeDelivered: false,
    });
  }
  await reportAll();
});

const BEGINNINGS = {
  "with their sealing": async (setup: ShardSetup) =>
    (await sealAndBegin(setup)).flatMap((sealing) =>
      sealing.kind === "event" ? [sealing.event] : [],
    ),
  "after their sealing": async (setup: ShardSetup) => {
    const ids = (await sealAll(setup)).map(({ id }) => id);
    return (await beginSending(setup.deps, ids)).events;
  },
};

for (const [when, begin] of Object.entries(BEGINNINGS)) {
  test.serial(
    `usage whose attempts began ${when} is billed once if the worker is killed after some calls, and not before the lease is over`,
    async (t) => {
      const setup = await setUpShards(t, 6);
      const { organizations, deps, pass, reportOnce, sends } = setup;
      for (const [index, { register }] of organizations.entries()) {
        await register(index + 1);
      }
      pass(5);
      const events = await begin(setup);
      t.is(events.length, 6);
      for (const event of events.slice(0, 3)) {
        await deps.billing.stripe?.send(
          { ...event, customer: event },
          new AbortController().signal,
        );
      }
      t.is(sends(), 3);

      pass(14);
      await reportOnce();
      t.is(sends(), 3);
      pass(2);
      await reportOnce();

      t.is(sends(), 9);
      t.deepEqual(
        organizations.map(({ billed }) => billed()),
        [1, 2, 3, 4, 5, 6],
      );
      t.deepEqual(await listWaitingStreams(deps.db), []);
    },
  );
}

test.serial("usage for which no call to Stripe is free is sealed and not attempted", async (t) => {
  const setup = await setUpShards(t, 5);
  const { organizations, deps, pass, reportAll } = setup;
  await Promise.all(organizations.map(({ register }) => register(2)));
  pass(5);
  // A second of calls can be reserved.
  await deps.db.query(sql.typeAlias("void")`
    UPDATE call_rate
    SET calls_per_second = 1.2, changed_at = clock_timestamp(), reserved_until = clock_timestamp()
  `);

  const sealings = await sealAndBegin(setup);

  const begun = sealings.filter(
    (sealing) => sealing.kind === "event" && sealing.startsAtMs !== null,
  );
  t.is(begun.length, 2);
  const unattempted = (await pendingEvents(setup)).filter(({ attempts }) => attempts === 0);
  t.is(unattempted.length, 3);
  for (const event of unattempted) {
    t.like(event, UNATTEMPTED);
  }
  await deps.db.query(sql.typeAlias("void")`UPDATE call_rate SET calls_per_second = 1000`);
  await reportAll();
  t.deepEqual(
    organizations.map(({ billed }) => billed()),
    [2, 2, 2, 2, 2],
  );
});

/**
 * Makes the database reject the usage of one stream, so that a shard's sender seals each by itself.
 * @returns what makes it accept the usage again
 */
const rejectOne = async (
  owner: DatabasePool,
  { organizations }: ShardSetup,
): Promise<() => Promise<unknown>> => {
  const accountId = organizations[0]?.stream.accountId ?? "";
  await owner.query(sql.typeAlias("void")`
    ALTER TABLE meter_event
    ADD CONSTRAINT poison CHECK (account_id <> ${sql.literalValue(accountId)}::uuid) NOT VALID
  `);
  return () => owner.query(sql.typeAlias("void")`ALTER TABLE meter_event DROP CONSTRAINT poison`);
};

/** Returns the database, with something to do before each transaction. */
const beforeTransactions = (db: DatabasePool, work: () => void): DatabasePool =>
  new Proxy(db, {
    get: (target, name) => {
      if (name === "transaction") {
        work();
      }
      return Reflect.get(target, name);
    },
  });

test.serial("streams that are sealed one by one have separate leases", async (t) => {
  const setup = await setUpShards(t, 3);
  const { organizations, deps, pass, sender } = setup;
  await Promise.all(organizations.map(({ register }) => register(2)));
  pass(5);
  const acceptAll = await rejectOne(t.context.owner, setup);
  // One lease of 15 seconds would be over after the four transactions, that of the first stream after three is not.
  const db = beforeTransactions(deps.db, () => pass(4));

  await runSender(sender(shardOf(organizations[0]?.stream.accountId ?? ""), { ...deps, db }));
  await acceptAll();

  t.deepEqual(
    organizations.map(({ billed }) => billed()),
    [0, 2, 2],
  );
  await setup.reportAll();
});

test.serial(
  "attempts that began with the sealing of their streams are made although the next stream cannot be sealed",
  async (t) => {
    const setup = await setUpShards(t, 3);
    const { organizations, deps, pass, sender, sends } = setup;
    await Promise.all(organizations.map(({ register }) => register(2)));
    pass(5);
    const acceptAll = await rejectOne(t.context.owner, setup);
    let transactions = 0;
    const db = beforeTransactions(deps.db, () => {
      transactions += 1;
      // The first one is that of all streams.
      if (transactions === 1 + organizations.length) {
        throw new Error("no connection");
      }
    });
    const shardSender = sender(shardOf(organizations[0]?.stream.accountId ?? ""), { ...deps, db });
    await shardSender.scan();

    await t.throwsAsync(shardSender.step(), { message: "no connection" });
    await shardSender.settled();
    await acceptAll();

    t.true(sends() > 0);
    t.deepEqual(
      (await pendingEvents(setup)).filter(({ leasedUntil }) => leasedUntil !== null),
      [],
    );
    await setup.reportAll();
  },
);

test.serial(
  "attempts whose calls another worker reserves meanwhile are taken back, and made without waiting for a lease",
  async (t) => {
    const setup = await setUpShards(t, 3);
    const { organizations, deps, pass, sender, sends } = setup;
    await Promise.all(organizations.map(({ register }) => register(2)));
    pass(5);
    const shard = shardOf(organizations[0]?.stream.accountId ?? "");

    const isLocked = Promise.withResolvers<void>();
    const other = deps.db.transaction(async (transaction) => {
      await lockCallRate(transaction);
      isLocked.resolve();
      await awaitBlocked(transaction);
      await recordReservation(transaction, 1.1);
    });
    await isLocked.promise;
    const sealings = await sealAndBegin(setup);
    await other;

    t.is(sealings.length, 3);
    for (const sealing of sealings) {
      t.like(sealing, { kind: "event", startsAtMs: null, isResumable: true });
    }
    for (const event of await pendingEvents(setup)) {
      t.like(event, UNATTEMPTED);
    }
    await runSender(sender(shard));
    t.is(sends(), 3);
    t.deepEqual(
      organizations.map(({ billed }) => billed()),
      [2, 2, 2],
    );
  },
);

test.serial(
  "after a first attempt by a fast clock, an identifier is trusted no longer than from the next attempt on",
  async (t) => {
    const setup = await setUpShards(t, 1);
    const { deps, pass, reportAll } = setup;
    await setup.organizations[0]?.register(4);
    pass(5);
    const [sealed] = await sealAll(setup);
    const id = sealed?.id ?? 0n;
    const begin = async (aheadMs: number) => {
      const now = new Date(deps.clock.now().getTime() + aheadMs);
      const lease = { now, until: new Date(now.getTime() + 15_000) };
      const [attempt] = await beginAttempts(deps.db, [id], lease);
      return attempt;
    };
    const delayed = {
      id,
      reason: "no response",
      outcomeUnknown: true,
      newKey: false,
      askingSince: null,
      retryAt: deps.clock.now(),
    };
    await begin(5 * 3_600_000);
    await recordDelays(deps.db, [{ ...delayed, attempts: 1 }]);

    const next = await begin(0);

    t.deepEqual(next?.firstAttemptAt, deps.clock.now());
    pass(21 * 3600);
    t.like(next && decideNextStep(next, null, deps.clock.now()), { cause: "asking" });
    await recordDelays(deps.db, [{ ...delayed, attempts: 2 }]);
    await reportAll();
  },
);
