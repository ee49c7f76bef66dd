import { insertReconciliation } from "../../../modules/billing/reconciliation/reconciliations.sql.ts";
import { sql } from "../../../db/sql.ts";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { updateOrganization } from "../../../modules/accounts/updateOrganization.ts";
import { acknowledgeDrift } from "../../../modules/billing/reconciliation/acknowledgeDrift.ts";
import {
  readReconciliation,
  runReconciliation,
} from "../../../modules/billing/reconciliation/runReconciliation.ts";
import {
  defaultSpan,
  listStreamsNeedingAttention,
  reconcileUsage,
} from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { drainUsage } from "../drainUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { createYieldingPace } from "../../support/bulkPaces.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

const signal = new AbortController().signal;

test("reconciliation finds no drift if the processor has what was delivered", async (t) => {
  const { register, refund, drain, pass, deps, stream, customerId } = await setUpBilling(t);
  const id = await register(7);
  await drain();
  await refund(id, 2);
  await drain();
  await register(3);
  pass(3600);

  const { streams } = await reconcileUsage(deps, { accountId: stream.accountId }, signal);

  t.is(streams.length, 1);
  t.like(streams[0], {
    processor: "stripe",
    customerId,
    delivered: 5,
    pending: 3,
    failed: 0,
    drift: 0,
    differences: [],
  });
});

test("reconciliation reports the minutes in which the processor differs", async (t) => {
  const { register, drain, pass, deps, stream, double, reportElsewhere } = await setUpBilling(t);
  const second = double.control.now();
  await register(7);
  pass(5 * 3600);
  await register(3);
  await drain();
  pass(3600);
  await reportElsewhere(2, second);

  const { streams } = await reconcileUsage(deps, { accountId: stream.accountId }, signal);

  const minute = second - (second % 60);
  t.like(streams[0], { delivered: 10, processorQuantity: 12, drift: 2 });
  t.is(streams[0]?.differences.length, 1);
  t.like(streams[0]?.differences[0], { minute, ours: 7, processor: 9, mayLag: false });
});

test("reconciliation reports a stream whose usage cannot be read, and compares it again the next time", async (t) => {
  const { register, drain, pass, deps, stream, double } = await setUpBilling(t);
  await register(7);
  await drain();
  pass(3600);
  double.control.addFault({
    kind: "respond",
    method: "GET",
    path: `/v1/billing/meters/${double.control.meterIds().tree}/event_summaries`,
    status: 404,
    body: { error: { type: "invalid_request_error", message: "No such customer: 'cus_gone'" } },
  });

  const first = await reconcileUsage(deps, { accountId: stream.accountId }, signal);
  const second = await reconcileUsage(deps, { accountId: stream.accountId }, signal);

  t.like(first.streams[0], { delivered: 7, processorQuantity: null, drift: null });
  t.regex(first.streams[0]?.error ?? "", /No such customer/u);
  t.like(second.streams[0], { delivered: 7, processorQuantity: 7, drift: 0, error: null });
});

test("the drift of many minutes is reported as a whole, with its first twenty minutes", async (t) => {
  const { deps, stream, register, drain, pass, double, reportElsewhere } = await setUpBilling(t);
  const start = double.control.now();
  for (let minute = 0; minute < 25; minute += 1) {
    await register(10);
    await reportElsewhere(1);
    pass(60);
  }
  await drain();
  pass(3600);

  const { streams } = await reconcileUsage(deps, { accountId: stream.accountId }, signal);

  t.is(streams.length, 1);
  t.like(streams[0], { delivered: 250, processorQuantity: 275, drift: 25, error: null });
  t.is(streams[0]?.differences.length, 20);
  t.like(streams[0]?.differences[0], {
    minute: start,
    ours: 10,
    processor: 11,
    mayLag: false,
  });
  t.is(listStreamsNeedingAttention(streams).length, 1);
});

const LAGGING = { summaryDelaySeconds: 120 };

test("a refund delivered a minute ago is no drift while the processor's sums may lag", async (t) => {
  const { deps, stream, register, refund, drain, pass } = await setUpBilling(t, LAGGING);
  const reconcile = async () => (await reconcileUsage(deps, stream, signal)).streams;
  const id = await register(7);
  await drain();
  pass(3600);
  await refund(id, 2);
  await drain();

  const [lagging] = await reconcile();
  pass(120);
  const [caughtUp] = await reconcile();

  t.like(lagging, { delivered: 5, processorQuantity: 7, drift: 2 });
  t.like(lagging?.differences[0], { ours: 5, processor: 7, mayLag: true });
  t.deepEqual(listStreamsNeedingAttention(lagging ? [lagging] : []), []);
  t.like(caughtUp, { drift: 0, differences: [] });
});

test("a difference that lag cannot explain is drift, even if other usage of that minute was delivered recently", async (t) => {
  const { deps, stream, register, refund, drain, pass, double, reportElsewhere } =
    await setUpBilling(t, LAGGING);
  const second = double.control.now();
  const id = await register(7);
  await reportElsewhere(3, second);
  await drain();
  pass(3600);
  await refund(id, 2);
  await drain();

  const { streams } = await reconcileUsage(deps, stream, signal);

  t.like(streams[0]?.differences[0], { ours: 5, processor: 10, mayLag: false });
  t.is(listStreamsNeedingAttention(streams).length, 1);
});

test("twenty lagging minutes need attention, because further minutes may hide drift", async (t) => {
  const { deps, stream, register, refund, drain, pass, reportElsewhere } = await setUpBilling(
    t,
    LAGGING,
  );
  const ids: string[] = [];
  for (let minute = 0; minute < 20; minute += 1) {
    ids.push(await register(2));
    pass(60);
  }
  await reportElsewhere(1000);
  await drain();
  pass(3600);
  for (const id of ids) {
    await refund(id, 1);
  }
  await drain();

  const { streams } = await reconcileUsage(deps, stream, signal);

  t.deepEqual(
    streams[0]?.differences.map(({ mayLag }) => mayLag),
    Array.from({ length: 20 }, () => true),
  );
  t.is(listStreamsNeedingAttention(streams).length, 1);
});

test("usage that never arrives is drift once the processor's sums can no longer lag", async (t) => {
  const { deps, stream, register, drain, pass, double } = await setUpBilling(t, LAGGING);
  const problems = async () =>
    listStreamsNeedingAttention((await reconcileUsage(deps, stream, signal)).streams);
  await register(7);
  pass(3600);
  double.control.addFault({ kind: "reject_later" });
  await drain();

  t.deepEqual(await problems(), []);
  pass(15 * 60);
  t.like((await problems())[0], { drift: -7 });
});

test("each poll after the first compares only the streams that drifted in the one before", async (t) => {
  const { register, drain, pass, deps, double, stream } = await setUpBilling(t);
  await register(7);
  double.control.addFault({ kind: "reject_later" });
  await drain();
  pass(3600);
  const { id: other } = await createTestOrganization(deps.db, { clock: deps.clock });
  await createRegistrationWriter(deps).register(
    registrationOf(other, { mode: "test", kind: "bottle" }),
  );
  pass(3600);
  await drainUsage(
    deps,
    { accountId: other, mode: "test", kind: "bottle" },
    { signal, onResult: () => undefined },
  );
  pass(3600);
  const id = crypto.randomUUID();
  const poll = (isFinal: boolean) => runReconciliation(deps, { id, isFinal }, signal);

  const first = await poll(false);
  const second = await poll(false);
  const third = await poll(true);

  t.true(first.streams.some(({ accountIds: [accountId] }) => accountId === other));
  t.true(first.drifting.some(({ accountIds: [accountId] }) => accountId === stream.accountId));
  const compared = ({ streams }: typeof first) => streams.map(({ accountIds }) => accountIds);
  t.deepEqual(
    compared(second),
    first.drifting.map(({ accountIds }) => accountIds),
  );
  t.deepEqual(
    compared(third),
    second.drifting.map(({ accountIds }) => accountIds),
  );
});

test("an acknowledged difference is reported again only if it changes", async (t) => {
  const { register, drain, pass, deps, stream, reportElsewhere } = await setUpBilling(t);
  const { accountId } = stream;
  const second = Math.floor(deps.clock.now().getTime() / 1000);
  const registration = await register(7);
  await drain();
  await reportElsewhere(2, second);
  pass(3600);
  const span = { start: second - (second % 60), end: second - (second % 60) + 3600 };
  const run = async () => {
    const id = crypto.randomUUID();
    const { drifting } = await runReconciliation(
      deps,
      { id, isFinal: true, accountId, span },
      signal,
    );
    return { drifting, stored: await readReconciliation(deps.db, id) };
  };

  const found = (await run()).stored[0]?.differences[0];
  const note = { reason: "a test of the partner's", operator: "ada" };
  await acknowledgeDrift(deps, BigInt(found?.id ?? 0), note);
  const acknowledged = await run();
  await reportElsewhere(3, second);
  const changed = await run();

  t.like(found, { minute: span.start, ours: 7, processor: 9 });
  t.deepEqual(
    found?.events.map(({ state, quantity, registrationIds }) => [state, quantity, registrationIds]),
    [["delivered", 7, [registration]]],
  );
  t.deepEqual(acknowledged.drifting, []);
  t.like(changed.drifting[0], { drift: 5, acknowledged: 2 });
  t.like(changed.stored[0]?.differences[0], { ours: 7, processor: 12 });
  await t.throwsAsync(acknowledgeDrift(deps, 999_999n, note), { code: "record_not_found" });
});

test("a reconciliation fails if the processor is not configured, and succeeds if it refuses a customer", async (t) => {
  const { register, drain, pass, deps, stream, double } = await setUpBilling(t);
  await register(7);
  await drain();
  pass(3600);
  const { accountId } = stream;
  const end = Math.floor(deps.clock.now().getTime() / 60_000) * 60;
  const run = async (billing: typeof deps.billing) => {
    const id = crypto.randomUUID();
    const { db, clock } = deps;
    const span = { start: end - 7200, end };
    const options = { id, isFinal: true, accountId, span };
    await runReconciliation({ db, clock, billing }, options, signal);
    // A stored one is returned as it is.
    const startedAt = clock.now();
    return insertReconciliation(db, { id, isComplete: false, span, startedAt });
  };

  const unconfigured = await run(createBilling({ db: deps.db, stripe: null }));
  double.control.addFault({
    kind: "respond",
    method: "GET",
    path: `/v1/billing/meters/${double.control.meterIds().tree}/event_summaries`,
    status: 404,
    body: { error: { type: "invalid_request_error", message: "No such customer: 'cus_gone'" } },
  });
  const refused = await run(deps.billing);

  t.like(unconfigured, { unreadable: 1, drifting: 0 });
  t.regex(unconfigured.error ?? "", /could not be read.*STRIPE_SECRET_KEY is not set/u);
  t.like(refused, { unreadable: 1, drifting: 0, error: null });
});

test("a customer that moves to another account is no drift", async (t) => {
  const { register, drain, pass, deps, stream, customerId } = await setUpBilling(t);
  await register(7);
  await drain();
  await updateOrganization({ ...deps, actor: SERVICE }, stream.accountId, {
    stripeCustomerId: null,
    stripeSubscriptionId: null,
  });
  const { id: successor } = await createTestOrganization(deps.db, {
    clock: deps.clock,
    name: "Successor",
    stripeCustomerId: customerId,
  });
  const writer = createRegistrationWriter(deps);
  await writer.register(registrationOf(successor, { count: 3 }));
  pass(3600);
  await drainUsage(
    deps,
    { ...stream, accountId: successor },
    { signal, onResult: () => undefined },
  );
  await writer.register(registrationOf(successor, { count: 2 }));
  pass(3600);

  const { streams } = await reconcileUsage(deps, {}, signal);

  const own = streams.filter((compared) => compared.customerId === customerId);
  t.is(own.length, 1);
  t.like(own[0], { delivered: 10, processorQuantity: 10, drift: 0, error: null });
  for (const accountId of [stream.accountId, successor]) {
    const selected = await reconcileUsage(deps, { accountId }, signal);
    t.is(selected.streams.length, 1);
    t.like(selected.streams[0], { accountIds: own[0]?.accountIds, drift: 0, pending: 2 });
  }
});

test("a reconciliation that yields reads sums in parts, and reports the same", async (t) => {
  const { db } = t.context;
  const now = systemClock.now();
  const clock = { now: () => now };
  const span = defaultSpan(now);
  const { id: equal } = await createTestOrganization(db, { name: "Equal" });
  const { id: drifting } = await createTestOrganization(db, { name: "Drifting" });
  // One event in each quarter of an hour, from the first to the last second of the span.
  await db.query(sql.typeAlias("void")`
    WITH sealed AS (
      INSERT INTO meter_event
        (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at, settled_at)
      SELECT
        account_id, 'live', 'tree', least(second, ${span.end - 1}), 1, 3,
        account_id || ':' || second, 'ledger', 'delivered', now(), now()
      FROM unnest(${sql.array([equal, drifting], "uuid")}) AS account_id
      CROSS JOIN generate_series(${span.start}::bigint, ${span.end}::bigint, 900) AS second
      RETURNING identifier, account_id, second, quantity
    )
    INSERT INTO ledger_usage (identifier, account_id, mode, kind, second, quantity, recorded_at)
    SELECT identifier, account_id, 'live', 'tree', second, quantity, now()
    FROM sealed
    -- One event of one account is not in the ledger.
    WHERE NOT (account_id = ${drifting} AND second = ${span.start})
  `);
  const pace = createYieldingPace();
  const reconcile = async (given: { readonly pace?: typeof pace }) => {
    const billing = createBilling({ db, stripe: null, ...given });
    const { streams } = await reconcileUsage({ db, clock, billing, ...given }, { span }, signal);
    return streams.filter(({ accountIds }) => [equal, drifting].includes(accountIds[0]));
  };

  const usual = await reconcile({});
  t.deepEqual(
    usual.map(({ accountName, drift }) => ({ accountName, drift })),
    [
      { accountName: "Drifting", drift: -3 },
      { accountName: "Equal", drift: 0 },
    ],
  );
  t.deepEqual(await reconcile({ pace }), usual);
  // 35 days in parts of an hour for our sums. The ledger's have few entries.
  t.true(pace.stepCount() > 35 * 24, String(pace.stepCount()));
});
