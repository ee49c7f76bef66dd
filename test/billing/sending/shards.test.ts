import { ownerKey } from "../../../modules/records/owner.rules.ts";
import { lockStream } from "../../../modules/billing/streams.sql.ts";
import { listWaitingStreams } from "../../../modules/billing/sending/waitingStreams.sql.ts";
import { sql } from "../../../db/sql.ts";
import { shardOf } from "../../../db/shards.rules.ts";
import { beginSending, finishSending } from "../../../modules/billing/sending/sendMeterEvent.ts";
import { createOutcomeRecords } from "../../../modules/billing/sending/createAttempts.ts";
import { beginAttempts, recordOutcomes } from "../../../modules/billing/sending/attempts.sql.ts";
import { decideNextStep } from "../../../modules/billing/sending/decideNextStep.rules.ts";
import { testWithDatabase } from "../../support/database.ts";
import { isResumable, runSender, sealAll, setUpShards } from "./shardSetup.ts";
import type { BilledOrganization } from "./shardSetup.ts";

// Serial, because a shard's sender serves everything that waits in the database of the file.
const test = testWithDatabase();

const firstOf = ([first]: readonly BilledOrganization[]): BilledOrganization => {
  if (!first) {
    throw new Error("There is no organization.");
  }
  return first;
};

test.serial(
  "the usage of many streams is sealed in one transaction, and each is billed once",
  async (t) => {
    const setup = await setUpShards(t, 20);
    const { organizations, reportAll, double } = setup;
    for (const { register } of organizations) {
      await register(2);
      await register(3);
    }
    setup.pass(1);
    await firstOf(organizations).register(7);

    await reportAll();

    t.deepEqual(
      organizations.map(({ billed }) => billed()),
      organizations.map((_, index) => (index === 0 ? 12 : 5)),
    );
    t.is(double.control.overlaps(), 0);
    t.is(setup.sends(), 21);
  },
);

test.serial(
  "a sealed event whose worker was killed before the attempt is sent by the next one",
  async (t) => {
    const setup = await setUpShards(t, 2);
    const { organizations, pass, reportOnce, sends } = setup;
    await firstOf(organizations).register(4);
    pass(5);
    t.is((await sealAll(setup)).length, 1);

    await reportOnce();

    t.is(sends(), 1);
    t.is(firstOf(organizations).billed(), 4);
  },
);

test.serial(
  "usage is billed once if the worker is killed after some calls, and not before the lease is over",
  async (t) => {
    const setup = await setUpShards(t, 6);
    const { organizations, deps, pass, reportOnce, sends } = setup;
    for (const [index, { register }] of organizations.entries()) {
      await register(index + 1);
    }
    pass(5);
    const ids = (await sealAll(setup)).map(({ id }) => id);
    const { events } = await beginSending(deps, ids);
    t.is(events.length, 6);
    for (const event of events.slice(0, 3)) {
      await deps.billing.stripe?.send({ ...event, customer: event }, new AbortController().signal);
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
      return (await beginAttempts(deps.db, [id], now))[0];
    };
    const now = deps.clock.now();
    const delay = { id, state: "pending", reason: "no response", retryAt: now, now } as const;
    await begin(5 * 3_600_000);
    await recordOutcomes(deps.db, [{ ...delay, outcomeUnknown: true, attempts: 1 }]);

    const next = await begin(0);

    t.deepEqual(next?.firstAttemptAt, now);
    pass(21 * 3600);
    t.like(next && decideNextStep(next, null, deps.clock.now()), { cause: "asking" });
    await recordOutcomes(deps.db, [{ ...delay, outcomeUnknown: true, attempts: 2 }]);
    await reportAll();
  },
);

test.serial(
  "a worker that continues after another took over its shard sends and records nothing",
  async (t) => {
    const setup = await setUpShards(t, 3);
    const { organizations, deps, pass, reportOnce, sends } = setup;
    for (const { register } of organizations) {
      await register(4);
    }
    pass(5);
    const events = await sealAll(setup);
    const late = await beginSending(
      deps,
      events.map(({ id }) => id),
    );
    pass(16);
    await reportOnce();
    t.is(sends(), 3);

    const record = createOutcomeRecords(deps);
    const results = await Promise.all(
      late.events.map((event) =>
        finishSending({ ...deps, record }, event, {
          started: late.started,
          signal: new AbortController().signal,
        }),
      ),
    );

    t.true(results.every(({ kind }) => kind === "delayed"));
    t.is(sends(), 3);
    t.deepEqual(await listWaitingStreams(deps.db), []);
    t.deepEqual(
      organizations.map(({ billed }) => billed()),
      [4, 4, 4],
    );
  },
);

test.serial("two senders of one shard at the same time bill everything once", async (t) => {
  const setup = await setUpShards(t, 30);
  const { organizations, deps, pass, sender, double } = setup;
  for (let second = 0; second < 3; second += 1) {
    await Promise.all(organizations.map(({ register }) => register(2)));
    pass(1);
  }
  pass(5);
  const shard = shardOf(firstOf(organizations).stream.accountId);

  await Promise.all([runSender(sender(shard)), runSender(sender(shard))]);
  await setup.reportAll();

  t.deepEqual(
    organizations.map(({ billed }) => billed()),
    organizations.map(() => 6),
  );
  t.is(double.control.overlaps(), 0);
  t.deepEqual(await listWaitingStreams(deps.db), []);
});

test.serial("a call that takes long delays only its own stream", async (t) => {
  const setup = await setUpShards(t, 3);
  const { organizations, pass, sender, double } = setup;
  const slow = firstOf(organizations);
  double.control.addFault({ kind: "hold", mentioning: slow.customerId });
  for (let second = 0; second < 3; second += 1) {
    await Promise.all(organizations.map(({ register }) => register(2)));
    pass(1);
  }
  pass(5);
  const shardSender = sender(shardOf(slow.stream.accountId));
  await shardSender.scan();
  const others = organizations.slice(1);
  while (others.some(({ billed }) => billed() < 6)) {
    await shardSender.step();
    await shardSender.waitForWork(20);
  }
  t.is(slow.billed(), 0);
  t.is(double.control.held(), 1);

  double.control.release();
  await runSender(shardSender);
  t.is(slow.billed(), 6);
});

test.serial("a stream whose usage the database rejects is reported, and delays none", async (t) => {
  const setup = await setUpShards(t, 3);
  const { owner } = t.context;
  const { organizations, pass, reportOnce, reportAll, failures } = setup;
  const poisoned = firstOf(organizations);
  await owner.query(sql.typeAlias("void")`
    ALTER TABLE meter_event
    ADD CONSTRAINT poison CHECK (account_id <> ${sql.literalValue(poisoned.stream.accountId)}::uuid) NOT VALID
  `);
  await Promise.all(organizations.map(({ register }) => register(2)));
  pass(5);

  await reportOnce();

  t.deepEqual(
    organizations.map(({ billed }) => billed()),
    [0, 2, 2],
  );
  t.deepEqual(
    failures.map(({ key }) => key),
    [ownerKey(poisoned.stream)],
  );
  await owner.query(sql.typeAlias("void")`ALTER TABLE meter_event DROP CONSTRAINT poison`);
  await reportAll();
  t.is(poisoned.billed(), 2);
});

test.serial("an operator who works on a stream delays no other", async (t) => {
  const setup = await setUpShards(t, 3);
  const { organizations, deps, pass, reportOnce } = setup;
  const locked = firstOf(organizations);
  await Promise.all(organizations.map(({ register }) => register(2)));
  pass(5);

  const isLocked = Promise.withResolvers<void>();
  const isDone = Promise.withResolvers<void>();
  const operator = deps.db.transaction(async (transaction) => {
    await lockStream(transaction, locked.stream);
    isLocked.resolve();
    await isDone.promise;
  });
  await isLocked.promise;
  await reportOnce();
  isDone.resolve();
  await operator;
  t.deepEqual(
    organizations.map(({ billed }) => billed()),
    [0, 2, 2],
  );

  await reportOnce();
  t.is(locked.billed(), 2);
});

test.serial("when Stripe gets too many calls, everything is billed once", async (t) => {
  const setup = await setUpShards(t, 20);
  const { organizations, pass, reportOnce, reportAll, double } = setup;
  await Promise.all(organizations.map(({ register }) => register(3)));
  pass(5);
  double.control.addFault({ kind: "rate_limit", times: 50 });

  for (let round = 0; round < 4; round += 1) {
    await reportOnce();
    pass(60);
  }

  double.control.clearFaults();
  await reportAll();
  t.deepEqual(
    organizations.map(({ billed }) => billed()),
    organizations.map(() => 3),
  );
});

test.serial(
  "an event that fails again and again waits with its own delay in the shard, and delays no other stream",
  async (t) => {
    const setup = await setUpShards(t, 2);
    const { organizations, deps, pass, reportOnce, reportAll, double, results } = setup;
    const failing = firstOf(organizations);
    double.control.addFault({ kind: "server_error", mentioning: failing.customerId, times: 1000 });
    await Promise.all(organizations.map(({ register }) => register(2)));
    pass(5);

    await reportOnce();
    t.false(await isResumable(setup, failing.stream));
    pass(5);
    t.true(await isResumable(setup, failing.stream));
    await reportOnce();
    pass(10);
    await reportOnce();
    t.like(await listWaitingStreams(deps.db), [{ ...failing.stream, attempts: 3 }]);
    t.false(await isResumable(setup, failing.stream));
    pass(3600);
    await organizations[1]?.register(5);
    pass(5);
    await reportOnce();
    t.is(results.filter(({ key }) => key === ownerKey(failing.stream)).length, 4);
    t.is(organizations[1]?.billed(), 7);

    double.control.clearFaults();
    await reportAll();
    await failing.register(4);
    pass(5);
    await reportOnce();
    t.is(failing.billed(), 6);
    t.is(double.control.overlaps(), 0);
  },
);
