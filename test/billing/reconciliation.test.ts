import {
  listStreamsNeedingAttention,
  reconcileUsage,
} from "../../services/billing/reconcileUsage.ts";
import { testWithDatabase } from "../support/database.ts";
import { setUpBilling } from "./billingSetup.ts";

const test = testWithDatabase();

test("reconciliation finds no drift if the processor has what was delivered", async (t) => {
  const { register, refund, drain, pass, deps, stream, customerId } = await setUpBilling(t);
  const id = await register(7);
  await drain();
  await refund(id, 2);
  await drain();
  await register(3);
  pass(3600);

  const { streams } = await reconcileUsage(
    deps,
    { accountId: stream.accountId },
    new AbortController().signal,
  );

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

  const { streams } = await reconcileUsage(
    deps,
    { accountId: stream.accountId },
    new AbortController().signal,
  );

  const minute = second - (second % 60);
  t.like(streams[0], { delivered: 10, processorQuantity: 12, drift: 2 });
  t.deepEqual(streams[0]?.differences, [{ minute, ours: 7, processor: 9, mayLag: false }]);
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

  const first = await reconcileUsage(
    deps,
    { accountId: stream.accountId },
    new AbortController().signal,
  );
  const second = await reconcileUsage(
    deps,
    { accountId: stream.accountId },
    new AbortController().signal,
  );

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

  const { streams } = await reconcileUsage(
    deps,
    { accountId: stream.accountId },
    new AbortController().signal,
  );

  t.is(streams.length, 1);
  t.like(streams[0], { delivered: 250, processorQuantity: 275, drift: 25, error: null });
  t.is(streams[0]?.differences.length, 20);
  t.deepEqual(streams[0]?.differences[0], {
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
  const reconcile = async () =>
    (await reconcileUsage(deps, stream, new AbortController().signal)).streams;
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

  const { streams } = await reconcileUsage(deps, stream, new AbortController().signal);

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

  const { streams } = await reconcileUsage(deps, stream, new AbortController().signal);

  t.deepEqual(
    streams[0]?.differences.map(({ mayLag }) => mayLag),
    Array.from({ length: 20 }, () => true),
  );
  t.is(listStreamsNeedingAttention(streams).length, 1);
});

test("usage that never arrives is drift once the processor's sums can no longer lag", async (t) => {
  const { deps, stream, register, drain, pass, double } = await setUpBilling(t, LAGGING);
  const problems = async () =>
    listStreamsNeedingAttention(
      (await reconcileUsage(deps, stream, new AbortController().signal)).streams,
    );
  await register(7);
  pass(3600);
  double.control.addFault({ kind: "reject_later" });
  await drain();

  t.deepEqual(await problems(), []);
  pass(15 * 60);
  t.like((await problems())[0], { drift: -7 });
});

test("a stream needs attention only if the earlier polls found it too", async (t) => {
  const { deps, stream, register, drain, pass, double } = await setUpBilling(t);
  await register(7);
  double.control.addFault({ kind: "reject_later" });
  await drain();
  pass(3600);

  const { streams } = await reconcileUsage(deps, stream, new AbortController().signal);

  t.is(listStreamsNeedingAttention(streams, null).length, 1);
  t.is(listStreamsNeedingAttention(streams, streams).length, 1);
  t.is(listStreamsNeedingAttention(streams, []).length, 0);
  t.is(
    listStreamsNeedingAttention(
      streams,
      streams.map((other) => Object.assign({}, other, { customerId: "cus_other" })),
    ).length,
    0,
  );
});
