import type { ExecutionContext } from "ava";
import { z } from "zod";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { listSealingsOfSecond } from "../../../modules/billing/meterEventReports.sql.ts";
import { readMinuteUsage } from "../../../modules/billing/reconciliation/minuteUsage.sql.ts";
import {
  deleteProcessedEvents,
  insertProcessorEvent,
  listUnnamedRejections,
} from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { listUsedKinds } from "../../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import type { ReportedStream } from "../../../modules/billing/reconciliation/reportedStreams.sql.ts";
import { insertUsageCorrection } from "../../../modules/billing/reconciliation/usageCorrections.sql.ts";
import { sql } from "../../../db/sql.ts";
import { minuteOf } from "../../../modules/billing/usage.rules.ts";
import { applyRejectionReport } from "../../../modules/billing/processorEvents/applyRejectionReport.ts";
import { foldUsage } from "../../../modules/billing/folding/foldUsage.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { correctFailover } from "../../../modules/billing/reconciliation/correctFailover.ts";
import { deleteBefore } from "../../../db/batching/deleteInBatches.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

const DAY = 86_400;
const signal = new AbortController().signal;

/** An organization with usage at Stripe that can be folded, while Stripe's clock stays, so that it accepts refunds. */
const setUp = async (t: ExecutionContext<DatabaseContext>) => {
  const setup = await setUpBilling(t);
  const { deps, stream, double, customerId } = setup;
  const second = double.control.now();
  const reported: ReportedStream = {
    processor: "stripe",
    mode: "live",
    kind: "tree",
    customerId,
    accountIds: [stream.accountId],
    accountName: "Test Organization",
  };
  const day = { start: second - (second % DAY), end: second - (second % DAY) + DAY };
  return {
    ...setup,
    second,
    reported,
    fold: (accountId: string = stream.accountId) =>
      foldUsage(
        { ...deps, clock: { now: () => new Date((second + 100 * DAY) * 1000) } },
        { before: new Date((second + 20 * DAY) * 1000), accountId, isDryRun: false },
        () => undefined,
      ),
    reconcile: () => reconcileUsage(deps, { span: day }, signal),
    readEvents: () => listSealingsOfSecond(deps.db, stream, second),
  };
};

test.serial(
  "a refund after folding goes to the customer that was billed for the folded usage, and the sums agree",
  async (t) => {
    const scene = await setUp(t);
    const { register, refund, drain, deps, stream, double, customerId, second } = scene;
    const id = await register(8);
    await drain();
    const { customerId: other } = double.control.addSubscriber({});
    await updateAccount(deps.db, stream.accountId, { stripeCustomerId: other });
    const before = await scene.reconcile();
    const [folded] = await scene.fold();
    t.like(folded, { facts: 1, kept: 0 });
    t.deepEqual(await scene.reconcile(), before);
    t.deepEqual(await listUsedKinds(deps.db, stream.accountId), ["tree"]);
    await refund(id, 3);
    await drain();
    await drain();
    t.deepEqual(double.control.usage({ customerId: other }), []);
    t.deepEqual(scene.billed(), { [second]: 5 });
    t.deepEqual(scene.billed(), await scene.recorded());
    const [sealing] = await scene.readEvents();
    t.like(sealing, { customerId, quantity: -3, state: "delivered" });
    t.true(sealing?.identifier.endsWith(":2"));
    const { streams } = await scene.reconcile();
    t.like(
      streams.find(({ customerId: compared }) => compared === customerId),
      { delivered: 5, processorQuantity: 5, drift: 0 },
    );
  },
);

test.serial("checks of a minute count what was folded in it", async (t) => {
  const scene = await setUp(t);
  const { register, drain, pass, deps, stream, second, reported } = scene;
  await register(8);
  pass(2);
  const kept = await register(5);
  await drain();
  await deps.db.query(sql.typeAlias("void")`
    UPDATE meter_event SET last_error = 'a timeout before'
    WHERE account_id = ${stream.accountId} AND second = ${second + 2}
  `);
  const [event] = await listSealingsOfSecond(deps.db, stream, second + 2);
  t.assert(event);
  if (!event) {
    return;
  }
  const minute = minuteOf(second);
  const read = async () => ({
    others: await readMinuteUsage(deps.db, reported, minute, [event.id]),
    usage: await readMinuteUsage(deps.db, reported, minute),
  });
  const before = await read();
  const [folded] = await scene.fold();
  t.like(folded, { facts: 1, kept: 1 });
  const after = await read();
  t.is(after.others.explained, 8);
  t.is(after.usage.delivered, 13);
  t.deepEqual([before.others.explained, before.usage.delivered], [8, 13]);
  // What was compared before it was folded must be compared again.
  t.not(after.others.version, before.others.version);
  t.not(after.usage.version, before.usage.version);
  t.truthy(kept);
});

test.serial("after a failover, folded usage is not taken for units that were lost", async (t) => {
  const scene = await setUp(t);
  const { register, drain, pass, deps, stream, second, reported } = scene;
  await register(8);
  await drain();
  await scene.fold();
  pass(20 * 60);
  const { corrections } = await correctFailover(
    deps,
    {
      restoredAt: new Date(second * 1000),
      accountId: stream.accountId,
      includeLostRefunds: true,
      document: null,
      reason: "failover",
      operator: "ada",
      isDryRun: false,
    },
    signal,
  );
  t.deepEqual(corrections, []);
  // A real correction of the folded second is sealed under a number that was never used, and is not folded.
  await deps.db.transaction((transaction) =>
    insertUsageCorrection(transaction, reported, {
      second,
      quantity: 2,
      restoredAt: new Date(second * 1000),
      reason: "failover",
      operator: "ada",
      now: deps.clock.now(),
      settlement: null,
    }),
  );
  await drain();
  const sealings = await scene.readEvents();
  t.deepEqual(
    sealings.map(({ identifier }) => identifier.split(":").at(-1)),
    [correctionOf(sealings[0]?.identifier), "1002"],
  );
  await scene.fold();
  t.is((await scene.readEvents()).length, 2);
});

/** The delivered event of a correction is named after it. */
const correctionOf = (identifier = ""): string => identifier.replace(/^lost:/u, "");

test.serial(
  "usage that Stripe rejected late stays, and so does all that was sent while it rejected unnamed events",
  async (t) => {
    const scene = await setUp(t);
    const { register, drain, pass, deps } = scene;
    const { db, clock } = deps;
    await register(8);
    pass(2);
    await register(5);
    await drain();
    pass(3600);
    await register(3);
    await drain();
    const [rejected] = await scene.readEvents();
    const report = async (id: string, identifiers: readonly string[], errors: number) => {
      const now = clock.now();
      const type = "v1.billing.meter.error_report_triggered";
      await insertProcessorEvent(db, { id, type, objectId: null, createdAt: now }, now);
      await applyRejectionReport({ db, clock, observeRejection: () => undefined }, id, {
        windowStart: new Date((scene.second - 60) * 1000),
        windowEnd: new Date((scene.second + 600) * 1000),
        rejections: [
          {
            code: "no_meter",
            errors,
            samples: identifiers.map((identifier) => ({ identifier, message: "no meter" })),
          },
        ],
      });
    };
    await report("evt_named", [rejected?.identifier ?? ""], 1);
    await report("evt_unnamed", [], 1);
    await db.query(sql.typeAlias("void")`
      UPDATE processor_event SET state = 'processed', settled_at = received_at
    `);
    const later = new Date((scene.second + DAY) * 1000);
    await deleteBefore(deleteProcessedEvents, { db, before: later }, signal);
    const [folded] = await scene.fold();
    t.like(folded, { facts: 1, units: 3n, kept: 2 });
    t.deepEqual(
      await db.anyFirst(
        sql.type(z.strictObject({ id: z.string() }))`SELECT id FROM processor_event`,
      ),
      ["evt_unnamed"],
    );
    await db.query(sql.typeAlias("void")`DELETE FROM usage_rejection WHERE errors > named`);
    const [next] = await scene.fold();
    t.like(next, { facts: 1, units: 5n, kept: 1 });
    const unnamed = async () => (await listUnnamedRejections(db, new Date(0), 10)).length;
    t.is(await unnamed(), 0);
    // A rejection of folded usage cannot be applied, so operators see it as one that names no event.
    const stem = rejected?.identifier.replace(/:\d+:1$/u, "") ?? "";
    await report("evt_folded", [`${stem}:${scene.second + 2}:1`], 1);
    t.is(await unnamed(), 1);
    t.deepEqual(
      await db.anyFirst(sql.type(z.strictObject({ state: z.string() }))`
        SELECT state FROM meter_event WHERE account_id = ${scene.stream.accountId}
      `),
      ["rejected"],
    );
  },
);
