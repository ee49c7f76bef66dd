import { compareInvoices } from "../../../modules/billing/invoices/compareInvoices.ts";
import { sumDelivered } from "../../../modules/billing/invoices/invoicedUsage.sql.ts";
import { ProcessorUnavailableError } from "../../../modules/billing/processor.ts";
import { drainUsage } from "../drainUsage.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createBilledOrganization, setUpBilling } from "../billingSetup.ts";

// Serial, because a comparison reads every customer of the file's database.
const test = testWithDatabase().serial;

test("a comparison stops when Stripe does not answer, and continues where it stopped", async (t) => {
  const { deps, double, pass } = await setUpBilling(t);
  const { control } = double;
  const customers: string[] = [];
  for (let more = 0; more < 5; more += 1) {
    const { customerId, register, stream } = await createBilledOrganization(deps, control);
    customers.push(customerId);
    await register(1);
    pass(5);
    await drainUsage(deps, stream);
  }
  pass(1);
  const failed: string[] = [];
  const before = deps.clock.now();
  const run = (readBefore = before) =>
    compareInvoices(deps, {
      readBefore,
      signal: new AbortController().signal,
      intervalMs: 0,
      onFailure: (id) => failed.push(id),
    });
  const [, , third] = customers;
  const reading = { method: "GET", path: "/v1/subscriptions" } as const;
  control.addFault({ ...reading, kind: "server_error", mentioning: third ?? "" });
  t.deepEqual(await run(), { read: 4, failed: 1 });
  t.deepEqual(failed, [third]);

  control.addFault({ ...reading, kind: "drop", times: 3 });
  t.deepEqual(await run(), { read: 0, failed: 1 });
  control.clearFaults();
  t.deepEqual(await run(), { read: 1, failed: 0 });
  t.deepEqual(await run(), { read: 0, failed: 0 });

  pass(1);
  control.addFault({ kind: "drop", method: "GET", path: "/v1/subscriptions", times: 3 });
  await t.throwsAsync(run(deps.clock.now()), { instanceOf: ProcessorUnavailableError });
});

test("a copy expects no usage of the deployment from which it was separated", async (t) => {
  const { deps, register, drain, pass, customerId, double } = await setUpBilling(t);
  const start = double.control.now();
  await register(5);
  await drain();
  pass(60);
  const separatedAt = deps.clock.now();
  await register(2);
  await drain();
  const hour = { kind: "tree", start, end: start + 3600 } as const;
  const span = { ...hour, subscriptionId: null, problem: null };

  t.like(await sumDelivered(deps.db, customerId, [span], null), [{ delivered: 7 }]);
  t.like(await sumDelivered(deps.db, customerId, [span], separatedAt), [{ delivered: 2 }]);
});
