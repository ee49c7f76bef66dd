import type { DatabaseTransactionConnection } from "slonik";
import { ownerKey } from "../../../modules/records/owner.rules.ts";
import { lockStreams } from "../../../modules/billing/streams.sql.ts";
import { listWaitingStreams } from "../../../modules/billing/sending/waitingStreams.sql.ts";
import { sql } from "../../../db/sql.ts";
import { recordOutcomes } from "../../../modules/billing/sending/attempts.sql.ts";
import { decideNextStep, early } from "../../../modules/billing/sending/decideNextStep.rules.ts";
import { testWithDatabase } from "../../support/database.ts";
import { sealAll, setUpSending } from "./sendingSetup.ts";
import { whileOpen } from "../../support/lockWaits.ts";
import { runSender } from "../../support/runSender.ts";
import { registerFor } from "../../support/factories.ts";
import { sumLedgerUnits } from "../../support/accountSums.ts";
import { eventually } from "../../support/programs.ts";
import type { SendingSetup } from "./sendingSetup.ts";

// Serial, because a sender serves everything that waits in the database of the file.
const test = testWithDatabase().serial;

test("usage is billed once if the worker is killed after some calls, and not before the lease is over", async (t) => {
  const setup = await setUpSending(t, 6);
  const { organizations, billedUnits, deps, pass, reportOnce, sends } = setup;
  for (const [index, { register }] of organizations.entries()) {
    await register(index + 1);
  }
  pass(5);
  const events = await sealAll(setup);
  t.is(events.length, 6);
  for (const event of events.slice(0, 3)) {
    await deps.billing.stripe?.send(event, new AbortController().signal);
  }
  t.is(sends(), 3);

  pass(14);
  await reportOnce();
  t.is(sends(), 3);
  pass(2);
  await reportOnce();

  t.is(sends(), 9);
  t.deepEqual(billedUnits(), [1, 2, 3, 4, 5, 6]);
  t.deepEqual(await listWaitingStreams(deps.db), []);
});

test("after a first attempt by a fast clock, an identifier is trusted no longer than from the next attempt on", async (t) => {
  const setup = await setUpSending(t, 1);
  const { deps, pass, reportAll } = setup;
  await setup.organizations[0]?.register(4);
  pass(5);
  const [first] = await sealAll(setup, 5 * 3_600_000);
  const now = deps.clock.now();
  const recordUnknown = (attempts: number) => {
    const result = { ...early("no response", 0), outcomeUnknown: true };
    return recordOutcomes(deps.db, [{ event: { id: first?.id ?? 0n, attempts }, result, now }]);
  };
  await recordUnknown(1);

  const [next] = await sealAll(setup);

  t.deepEqual(next?.firstAttemptAt, now);
  pass(21 * 3600);
  t.like(next && decideNextStep(next, deps.clock.now()), { cause: "asking" });
  await recordUnknown(2);
  await reportAll();
});

test("two senders at the same time bill everything once", async (t) => {
  const setup = await setUpSending(t, 30);
  const { organizations, billedUnits, deps, pass, sender, double } = setup;
  for (let second = 0; second < 3; second += 1) {
    await Promise.all(organizations.map(({ register }) => register(2)));
    pass(1);
  }
  pass(5);

  await Promise.all([runSender(sender()), runSender(sender())]);
  await setup.reportAll();

  t.deepEqual([...new Set(billedUnits())], [6]);
  t.is(double.control.overlaps(), 0);
  t.deepEqual(await listWaitingStreams(deps.db), []);
});

test("a stream whose usage the database rejects is reported, and delays none", async (t) => {
  const setup = await setUpSending(t, 3);
  const { owner } = t.context;
  const { first: poisoned, billedUnits, registerAll, reportOnce, reportAll, failures } = setup;
  await owner.query(sql.typeAlias("void")`
    ALTER TABLE meter_event
    ADD CONSTRAINT poison CHECK (account_id <> ${sql.literalValue(poisoned.stream.accountId)}::uuid) NOT VALID
  `);
  await registerAll();

  await reportOnce();

  t.deepEqual(billedUnits(), [0, 2, 2]);
  const keys = failures.map(({ key }) => key);
  t.deepEqual(keys, [ownerKey(poisoned.stream)]);
  await owner.query(sql.typeAlias("void")`ALTER TABLE meter_event DROP CONSTRAINT poison`);
  await reportAll();
  t.is(poisoned.units(), 2);
});

test("an operator who works on a stream delays no other", async (t) => {
  const { first: locked, billedUnits, deps, registerAll, reportOnce } = await setUpSending(t, 3);
  await registerAll();

  const lock = (transaction: DatabaseTransactionConnection) =>
    lockStreams(transaction, [locked.stream]);
  await whileOpen(deps.db, lock, reportOnce);
  t.deepEqual(billedUnits(), [0, 2, 2]);

  await reportOnce();
  t.is(locked.units(), 2);
});

test("if Stripe rejects only one customer's calls as too many, only its stream waits", async (t) => {
  const { first: limited, organizations, ...setup } = await setUpSending(t, 4);
  const { billedUnits, pass, registerAll, reportOnce, double, results } = setup;
  const others = organizations.slice(1);
  double.control.addFault({ kind: "rate_limit", mentioning: limited.customerId, times: 5 });
  await registerAll();
  for (let attempt = 0; attempt < 5; attempt += 1) {
    await reportOnce();
    pass(60);
  }
  t.deepEqual(billedUnits(), [0, 2, 2, 2]);
  t.is(results.filter(({ key }) => others.some((o) => ownerKey(o.stream) === key)).length, 3);

  await reportOnce();

  t.is(limited.units(), 2);
});

const delayOf = ({ results }: SendingSetup, { stream }: SendingSetup["first"]): number | null => {
  const last = results.findLast(({ key }) => key === ownerKey(stream))?.result;
  return last?.kind === "delayed" ? last.afterMs : null;
};

test("while Stripe fails, the sender attempts the event of each stream with growing delays, and afterwards sends all usage in its order", async (t) => {
  const count = 23;
  const setup = await setUpSending(t, count);
  const { organizations, billedUnits, pass, registerAll, reportOnce, reportAll, sends } = setup;
  const { control } = setup.double;
  control.addFault({ kind: "server_error", times: 1_000_000 });
  await registerAll();
  for (let failure = 0; failure < 3; failure += 1) {
    await reportOnce();
    pass(10);
  }
  t.is(sends(), 3 * count);

  // The delays double from eight seconds to a minute.
  for (const longestMs of [8000, 16_000, 32_000, 60_000, 60_000]) {
    const before = sends();
    await reportOnce();
    t.is(sends(), before + count);
    for (const organization of organizations) {
      t.is(delayOf(setup, organization), longestMs);
    }
    await reportOnce();
    t.is(sends(), before + count);
    await registerAll();
    pass(60);
  }

  control.clearFaults();
  await reportAll();
  t.deepEqual([...new Set(billedUnits())], [12]);
  for (const { customerId } of organizations) {
    const events = control.events().filter((event) => event.customerId === customerId);
    const seconds = events.map(({ second }) => second);
    t.deepEqual([seconds.length, seconds], [6, seconds.toSorted((left, right) => left - right)]);
  }
  t.is(control.overlaps(), 0);
});

test("calls to Stripe that take long do not delay the usage of the ledger", async (t) => {
  const setup = await setUpSending(t, 5);
  const { first, organizations, billedUnits, deps, pass, sender } = setup;
  const { control } = setup.double;
  control.addFault({ kind: "hold", times: 4 });
  await setup.registerAll();
  const own = sender({ maximumRunning: 4 });
  await own.scan();
  await eventually(() => control.held() === 4);

  const ofLedger = { ...first.stream, mode: "test" } as const;
  await registerFor(deps.db, ofLedger.accountId, { clock: deps.clock, mode: "test", count: 3 });
  pass(5);
  await own.scan();

  await eventually(async () => (await sumLedgerUnits(deps.db, ofLedger)) === 3);
  t.is(control.held(), 4);
  t.is(organizations.filter(({ units }) => units() > 0).length, 0);
  control.release();
  await runSender(own);
  t.deepEqual([...new Set(billedUnits())], [2]);
});
