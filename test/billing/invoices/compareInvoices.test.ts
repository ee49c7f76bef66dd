import type { ExecutionContext } from "ava";
import { pino } from "pino";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { listInvoicedUsage } from "../../../modules/billing/invoices/invoicedUsage.sql.ts";
import { createStripeClient } from "../../../modules/billing/stripe/createStripeClient.ts";
import { createWorkerMetrics } from "../../../worker/createWorkerMetrics.ts";
import { impactOf, readJson } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { startBilledApi } from "../billedApi.ts";
import { setUpBilling } from "../billingSetup.ts";
import { compare } from "./liveLife.ts";

const test = testWithDatabase();

const DAY = 86_400;
const MONTH = 31 * DAY;
const HOUR = 3600;

const setUp = async (t: ExecutionContext<DatabaseContext>) => {
  const setup = await setUpBilling(t);
  const { deps, double, stream, register, drain } = setup;
  const { accountId } = stream;
  const impact = impactOf(t, { env: double.env, clock: deps.clock });
  return {
    ...setup,
    accountId,
    stripe: createStripeClient(double.stripe).stripe,
    control: double.control,
    /** Registers and delivers. */
    deliver: async (count: number): Promise<string> => {
      const id = await register(count);
      await drain();
      return id;
    },
    compare: () => compare(setup),
    rows: () => listInvoicedUsage(deps.db, accountId),
    /** The problems and their units, in the order of time. */
    problems: async () => {
      await compare(setup);
      return (await listInvoicedUsage(deps.db, accountId)).map(({ problem, units }) =>
        problem === null && units === 0 ? "invoiced" : `${problem} ${units}`,
      );
    },
    impact,
    succeed: impact.ok,
    startApi: async () => {
      const { get, post } = await startBilledApi(t, setup);
      return {
        plant: () => post("/plant/trees", { count: 1 }),
        usageOf: async (id: string) => (await get(`/usage/${id}`)).body,
        statementOf: async (month: string) => (await get(`/statement?period=${month}`)).body,
      };
    },
  };
};

test("usage is invoiced once, and says so with the invoice's number", async (t) => {
  const { deliver, pass, rows, compare: compareAll, succeed, accountId, startApi } = await setUp(t);
  const id = await deliver(5);
  const { usageOf, statementOf } = await startApi();
  pass(MONTH);
  await compareAll();
  t.deepEqual(await rows(), []);
  t.like(await usageOf(id), { state: "reported", invoice_number: null, uninvoiced_reason: null });

  pass(2 * HOUR);
  const reconciled = await succeed("usage", "reconcile", "--org", accountId, "--json");
  t.like(readJson(reconciled), { invoice_problems: [] });
  const [row] = await rows();
  t.like(row, { quantity: 5, delivered: 5, problem: null, units: 0, accountIds: [accountId] });
  t.regex(row?.invoiceNumber ?? "", /^DOUBLE-/u);
  t.like(await usageOf(id), { invoice_number: row?.invoiceNumber, uninvoiced_reason: null });
  t.like(await statementOf("2026-05"), {
    statements: [
      {
        kind: "tree",
        reported: 5,
        invoices: [{ number: row?.invoiceNumber, invoiced: 5, reported: 5, problem: null }],
      },
    ],
  });
  const statement = await succeed("statement", "--org", accountId, "--period", "2026-05");
  t.regex(statement.stderr, /tree: 5 invoiced in DOUBLE-\d+, from 2026-05-15/u);
});

test("usage that arrives after its invoice was found equal is late, until it is closed", async (t) => {
  const scene = await setUp(t);
  const { deliver, drain, register, pass, problems, double, impact, accountId } = scene;
  await deliver(5);
  await register(2);
  pass(MONTH + 2 * HOUR);
  t.deepEqual(await problems(), ["invoiced"]);
  pass(DAY);

  await drain();
  t.deepEqual(await problems(), ["late 2"]);
  await deliver(3);
  t.deepEqual(await problems(), ["late 2"]);
  pass(MONTH);
  t.deepEqual(await problems(), ["late 2", "invoiced"]);
  const overview = await impact("usage", "--org", accountId);
  t.regex(overview.stdout, /late +2 .* delivered after invoice DOUBLE-\d+ was finalized\n/u);
  const close = ["usage", "close", accountId, "--period", "2026-05-15/2026-06-15"];
  const item = ["--invoice-item", "ii_1", "--units", "2", "--reason", "outage"];
  await scene.succeed(...close, ...item);
  t.deepEqual(await problems(), ["invoiced", "invoiced"]);
  await scene.succeed("usage", "--org", accountId);
  t.deepEqual(double.control.problems(), []);
});

test("a paused collection is named, and rejects registrations with the policy suspend", async (t) => {
  const scene = await setUp(t);
  const { deliver, pass, problems, control, subscriptionId, accountId, impact, deps } = scene;
  const { plant, usageOf } = await scene.startApi();
  const id = await deliver(5);
  control.pauseCollection({ subscriptionId, behavior: "void" });
  pass(1);
  await scene.refresh();
  t.regex((await impact("org", "list")).stdout, /has its collection paused \(void\)/u);
  t.like(readJson(await impact("org", "show", accountId, "--json")), {
    subscription: {
      status: "active",
      paused_by: "void",
      problems: ["has its collection paused (void)"],
    },
  });
  t.is((await plant()).status, 200);
  await updateAccount(deps.db, accountId, { subscriptionPolicy: "suspend" });
  const { status, body } = await plant();
  t.is(status, 403);
  t.regex(String(body["error"]), /collection of the organization's subscription is paused/u);

  pass(MONTH);
  await scene.drain();
  t.deepEqual(await problems(), ["paused_void 6"]);
  t.like(await usageOf(id), { invoice_number: null, uninvoiced_reason: "paused_void" });
  const reconciled = await impact("usage", "reconcile", "--org", accountId);
  t.is(reconciled.exitCode, 1);
  t.regex(reconciled.stderr, /6 trees on no invoice: the collection of sub_\w+ was paused/u);
  const doctor = (await impact("doctor")).stdout;
  t.regex(doctor, /subscriptions and invoices +wrong .*6 trees on no invoice/u);
  t.regex((await impact("org", "list")).stdout, /6 trees on no invoice/u);
  const statement = await impact("statement", "--org", accountId, "--period", "2026-05");
  t.is(statement.exitCode, 1);
  t.regex(statement.stderr, /Not invoiced exactly once: 6 trees on no invoice: the collection/u);
  t.notRegex(statement.stderr, /Stripe does not have/u);
  const metrics = createWorkerMetrics({ ...deps, logger: pino({ level: "silent" }) });
  t.regex(await metrics.read(), /impact_uninvoiced_units\{problem="paused_void"\} [6-9]/u);
});

test("a subscription that ended without an invoice is named, and so is usage after its end, until a document bills both", async (t) => {
  const scene = await setUp(t);
  const { deliver, pass, problems, control, subscriptionId, impact, accountId } = scene;
  await deliver(10);
  pass(DAY);
  control.cancel({ subscriptionId, when: "now_without_invoice" });
  await deliver(5);

  t.deepEqual(await problems(), ["ended 10", "after_end 5"]);
  const { stderr } = await impact("usage", "reconcile", "--org", accountId);
  t.regex(stderr, /10 trees on no invoice: sub_\w+ ended without an invoice/u);
  t.regex(stderr, /5 trees on no invoice: sub_\w+ had ended/u);
  const { exitCode, stdout } = await impact("usage", "--org", accountId);
  t.is(exitCode, 1);
  t.regex(stdout, /late +15 .* sub_\w+ had ended\n/u);
  t.regex(stdout, /late: impact usage close E\d+ E\d+ --invoice-item ii_… --reason TEXT\n/u);

  const item = ["--invoice-item", "ii_1", "--units", "15", "--reason", "billed by hand"];
  await scene.succeed("usage", "close", accountId, "--period", "2026-05", ...item);
  t.deepEqual(await problems(), []);
  await scene.succeed("usage", "--org", accountId);
  await scene.succeed("statement", "--org", accountId, "--period", "2026-05");
});

test("a retried difference of a period that has ended is late, until a credit note closes it", async (t) => {
  const scene = await setUp(t);
  const { deliver, drain, pass, problems, impact, accountId, reportElsewhere } = scene;
  await deliver(5);
  reportElsewhere(3);
  pass(MONTH + 2 * HOUR);
  await problems();
  t.is((await impact("usage", "reconcile", "--org", accountId)).exitCode, 1);
  t.regex((await impact("usage", "retry", accountId)).stdout, /D\d+ +-3 +taken back/u);
  await drain();
  t.deepEqual(await problems(), ["late -3"]);
  const overview = await impact("usage", "--org", accountId);
  t.regex(overview.stdout, /late: impact usage close E\d+ --credit-note cn_…/u);
  const note = ["--credit-note", "cn_1", "--units", "-3", "--reason", "sent by another program"];
  await scene.succeed("usage", "close", accountId, ...note);
  await scene.succeed("usage", "--org", accountId);
  t.deepEqual(await problems(), ["invoiced"]);
});

test("a trial is said in the statement and in the usage, at once and after the comparison", async (t) => {
  const { deliver, pass, problems, control, subscriptionId, impact, accountId, startApi, refresh } =
    await setUp(t);
  control.beginTrial({ subscriptionId, trialEnd: control.now() + 10 * DAY });
  pass(1);
  await refresh();
  const id = await deliver(7);
  const { usageOf } = await startApi();
  const free = { state: "reported", invoice_number: null, uninvoiced_reason: "trial" };
  t.like(await usageOf(id), free);
  const statement = () => impact("statement", "--org", accountId, "--period", "2026-05");
  t.regex((await statement()).stderr, /usage in the trial from 2026-05-15 .* is free/u);

  pass(11 * DAY);
  t.deepEqual(await problems(), ["trial 7"]);
  t.like(await usageOf(id), free);
  const { stderr, exitCode } = await statement();
  t.is(exitCode, 0);
  t.regex(stderr, /7 trees on no invoice: the trial of sub_\w+ charges nothing/u);

  control.cancel({ subscriptionId, when: "now_without_invoice" });
  await deliver(5);
  t.is((await problems()).length, 2);
  const reconciled = await impact("usage", "reconcile", "--org", accountId);
  t.regex(
    reconciled.stderr,
    /1 span of usage is not invoiced exactly once; 1 other in a trial or without a subscription\./u,
  );
});

test("a draft, a missing invoice, a void one and another quantity are named", async (t) => {
  const { deliver, pass, problems, control, customerId, stripe } = await setUp(t);
  await deliver(3);
  pass(MONTH + 2 * HOUR);
  const { data } = await stripe.invoices.list({ customer: customerId, limit: 1 });
  const [invoice] = data;
  const line = invoice?.lines.data[0];
  if (!invoice || !line) {
    throw new Error("There is no invoice.");
  }
  /** Lets Stripe return other invoices at the next comparison. */
  const answer = (...invoices: readonly object[]): void =>
    control.addFault({
      kind: "respond",
      method: "GET",
      path: "/v1/invoices",
      status: 200,
      body: { object: "list", url: "/v1/invoices", has_more: false, data: invoices },
    });
  answer();
  t.deepEqual(await problems(), [], "an invoice may come a day late");
  pass(DAY);
  answer();
  t.deepEqual(await problems(), ["no_invoice 3"]);
  pass(4 * DAY);
  answer({ ...invoice, status: "draft", auto_advance: true, number: null });
  t.deepEqual(await problems(), ["draft 3"]);
  const tiers = [
    { ...line, quantity: 1 },
    { ...line, id: "il_2", quantity: 4 },
  ];
  answer({ ...invoice, lines: { ...invoice.lines, data: tiers } });
  t.deepEqual(await problems(), ["differs -2"], "tiers are added up");
  const { status_transitions: times } = invoice;
  const voided = { ...times, voided_at: (times.finalized_at ?? 0) + DAY };
  answer({ ...invoice, status: "void", status_transitions: voided });
  t.deepEqual(await problems(), ["voided 3"]);
  t.deepEqual(await problems(), ["invoiced"]);
});

test("all pages are read: subscriptions, invoices and their lines", async (t) => {
  const { deliver, pass, problems, control, stripe, customerId, subscriptionId } = await setUp(t);
  for (let more = 0; more < 12; more += 1) {
    control.addItem({ subscriptionId, price: control.addPrice({}) });
  }
  await deliver(1);
  pass(MONTH + 2 * HOUR);
  t.deepEqual(await problems(), ["invoiced"]);
  const { data } = await stripe.invoices.list({ customer: customerId, limit: 1 });
  t.true(data[0]?.lines.has_more);
  const paths = control.calls().map(({ path }) => path);
  t.true(paths.includes(`/v1/invoices/${data[0]?.id}/lines`));
  t.deepEqual(control.problems(), []);
});

test("a customer that Stripe does not know, or without a subscription, has usage on no invoice", async (t) => {
  const { deliver, pass, problems, control, customerId, subscriptionId } = await setUp(t);
  control.cancel({ subscriptionId, when: "now_with_invoice" });
  await deliver(2);
  t.deepEqual(await problems(), ["after_end 2"]);
  control.deleteCustomer({ customerId });
  pass(1);
  t.deepEqual(await problems(), ["no_subscription 2"]);
});
