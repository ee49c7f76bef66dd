import { updateAccount } from "../../../db/accounts/accounts.ts";
import { listFailedMeterEventIds } from "../../../db/billing/meterEventReports.ts";
import { beginAttempts } from "../../../db/billing/sending/attempts.ts";
import { findMeterEvent } from "../../../db/billing/meterEvents.ts";
import { checkRefund } from "../../../services/registrations/checkRefund.ts";
import { DomainError } from "../../../domain/errors.ts";
import { reconcileUsage } from "../../../services/billing/reconciliation/reconcileUsage.ts";
import { retryUsage } from "../../../services/billing/retryUsage.ts";
import { waiveUsage } from "../../../services/billing/waiveUsage.ts";
import type { Fault } from "../../stripeDouble/faults.ts";
import { testWithDatabase } from "../../support/database.ts";
import { eventually } from "../../support/programs.ts";
import type { BillingSetup } from "../billingSetup.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

/** Longer than Stripe's sums may lag. */
const LAG_SECONDS = 16 * 60;

const lost: Fault = { kind: "drop" };
const lostButAccepted: Fault = { kind: "drop", applied: true };
const refused: Fault = {
  kind: "respond",
  status: 400,
  body: { error: { type: "invalid_request_error", message: "No such customer: 'cus_gone'" } },
};

/** Registers two trees in one minute, one at a time. The faults hit their attempts in order. */
const registerTwo = async (
  { register, pass, drainOnce, double }: BillingSetup,
  faults: readonly Fault[],
): Promise<void> => {
  await register(1);
  pass(20);
  await register(1);
  pass(5);
  for (const fault of faults) {
    double.control.addFault(fault);
  }
  // After a refused event the sender continues; after a lost call it pauses.
  for (const { kind } of faults) {
    if (kind === "drop") {
      await drainOnce();
    }
  }
};

const failedIds = ({ deps, stream }: BillingSetup) => listFailedMeterEventIds(deps.db, stream);

const sumOf = (quantities: Readonly<Record<number, number>>): number =>
  Object.values(quantities).reduce((sum, quantity) => sum + quantity, 0);

test("nothing is concluded from the processor's sums while another event of the minute is being sent", async (t) => {
  const setup = await setUpBilling(t);
  const { events, drain, pass, retryFailed, billed, recorded } = setup;
  await registerTwo(setup, [lost, refused, lostButAccepted]);
  t.deepEqual(
    (await events()).map(({ state }) => state),
    ["blocked", "sending"],
  );

  await t.throwsAsync(retryFailed(), { instanceOf: DomainError, message: /is being sent/u });
  await drain();
  pass(LAG_SECONDS);
  t.deepEqual(await retryFailed(), ["waiting"]);
  await drain();

  t.deepEqual(billed(), await recorded());
});

test("of two failed events of one minute that are retried concurrently, only one is retried", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, double, events, drain, pass, billed, recorded } = setup;
  await registerTwo(setup, [lostButAccepted, refused, lost, refused]);
  await drain();
  t.deepEqual(
    (await events()).map(({ state }) => state),
    ["blocked", "blocked"],
  );
  pass(LAG_SECONDS);
  double.control.addFault({
    kind: "hold",
    method: "GET",
    path: `/v1/billing/meters/${double.control.meterIds().tree}/event_summaries`,
    times: 2,
  });

  const retrying = (await failedIds(setup)).map((id) => retryUsage(deps, id));
  await eventually(() => double.control.held() === 2);
  double.control.release();
  const results = await Promise.allSettled(retrying);

  t.deepEqual(results.map(({ status }) => status).toSorted(), ["fulfilled", "rejected"]);
  const rejected = results.find((result) => result.status === "rejected");
  t.regex(String(rejected?.reason), /changed meanwhile/u);
  pass(LAG_SECONDS);
  t.deepEqual(await setup.retryFailed(), ["waiting"]);
  await drain();
  // Stripe's sums are per minute, so it stays unknown which of the two it had.
  t.is(sumOf(billed()), sumOf(await recorded()));
});

test("an event whose attempt may be in progress cannot be retried", async (t) => {
  const { deps, seal, register, pass } = await setUpBilling(t);
  await register(4);
  pass(5);
  const { id = 0n } = (await seal()) ?? {};
  const now = deps.clock.now();
  await beginAttempts(deps.db, [id], { now, until: new Date(now.getTime() + 15_000) });

  await t.throwsAsync(retryUsage(deps, id, "absent"), {
    instanceOf: DomainError,
    message: /is sending: there is nothing to retry/u,
  });
});

test("a rejected event cannot be assumed to be delivered", async (t) => {
  const { register, drain, double, events, retryAs, billed, recorded } = await setUpBilling(t);
  double.control.addFault(refused);
  await register(4);
  await drain();

  await t.throwsAsync(retryAs("delivered"), {
    instanceOf: DomainError,
    message: / is rejected: the processor does not have it/u,
  });
  t.deepEqual(await events(), [{ state: "rejected", quantity: 4 }]);
  t.deepEqual(await retryAs("absent"), ["waiting"]);
  await drain();
  t.deepEqual(billed(), await recorded());
});

test("neither waived usage nor its refunds are sent, and they are no drift", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, register, refund, drain, double, events, billed, pass } = setup;
  double.control.addFault(refused);
  const id = await register(9);
  await drain();
  const [failed = 0n] = await failedIds(setup);

  await waiveUsage(deps, failed, "invoiced by hand");
  await refund(id, 4);
  await drain();

  t.deepEqual(await events(), [
    { state: "waived", quantity: 9 },
    { state: "held", quantity: -4 },
  ]);
  t.deepEqual(billed(), {});
  t.is(await checkRefund(deps, id), "settled");
  t.regex(
    (await findMeterEvent(deps.db, failed))?.lastError ?? "",
    /^waived: invoiced by hand; before: No such customer: 'cus_gone'/u,
  );
  pass(LAG_SECONDS);
  const report = await reconcileUsage(
    deps,
    { accountId: setup.stream.accountId },
    new AbortController().signal,
  );
  t.deepEqual(report.streams, []);
  await t.throwsAsync(waiveUsage(deps, failed, "again"), {
    message: /is waived/u,
  });
});

test("usage that was waived by mistake is billed after a retry, minus its refunds", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, register, refund, drain, double, billed, recorded } = setup;
  double.control.addFault(refused);
  const id = await register(9);
  await drain();
  const [failed = 0n] = await failedIds(setup);
  await waiveUsage(deps, failed, "by mistake");
  await refund(id, 4);
  await drain();

  t.is(await retryUsage(deps, failed), "waiting");
  await drain();

  t.deepEqual(billed(), await recorded());
});

test("a customer for which nothing was accepted is not compared", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, stream, register, drain, double, pass, retryFailed } = setup;
  double.control.addFault(refused);
  await register(4);
  await drain();
  const { customerId } = double.control.addSubscriber({});
  await updateAccount(deps.db, stream.accountId, { stripeCustomerId: customerId });
  t.deepEqual(await retryFailed(), ["waiting"]);
  await drain();
  pass(LAG_SECONDS);

  const { streams } = await reconcileUsage(deps, stream, new AbortController().signal);

  t.deepEqual(
    streams.map((report) => [report.customerId, report.drift]),
    [[customerId, 0]],
  );
});
