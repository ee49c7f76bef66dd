import { compareInvoices } from "../../../modules/billing/invoices/compareInvoices.ts";
import { sumDelivered } from "../../../modules/billing/invoices/invoicedUsage.sql.ts";
import { ProcessorUnavailableError } from "../../../modules/billing/processor.ts";
import { drainUsage } from "../drainUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { setUpBilling } from "../billingSetup.ts";

// Serial, because a comparison reads every customer of the file's database.
const test = testWithDatabase().serial;

test("a comparison stops when Stripe does not answer, and continues where it stopped", async (t) => {
  const { deps, double, pass } = await setUpBilling(t);
  const { control } = double;
  const writer = createRegistrationWriter(deps);
  const customers: string[] = [];
  for (let more = 0; more < 5; more += 1) {
    const { customerId, subscriptionId } = control.addSubscriber({});
    customers.push(customerId);
    const { id: accountId } = await createTestOrganization(deps.db, {
      clock: deps.clock,
      stripeCustomerId: customerId,
      stripeSubscriptionId: subscriptionId,
    });
    await writer.register(registrationOf(accountId, { mode: "live", count: 1 }));
    pass(5);
    await drainUsage(deps, { accountId, mode: "live", kind: "tree" });
  }
  pass(1);
  const failed: string[] = [];
  const readBefore = deps.clock.now();
  const run = () =>
    compareInvoices(deps, {
      readBefore,
      signal: new AbortController().signal,
      intervalMs: 0,
      onFailure: (id) => failed.push(id),
    });
  const [, , third] = customers;
  control.addFault({
    kind: "server_error",
    method: "GET",
    path: "/v1/subscriptions",
    mentioning: third ?? "",
  });
  t.deepEqual(await run(), { read: 4, failed: 1 });
  t.deepEqual(failed, [third]);

  control.addFault({ kind: "drop", method: "GET", path: "/v1/subscriptions", times: 3 });
  t.deepEqual(await run(), { read: 0, failed: 1 });
  control.clearFaults();
  t.deepEqual(await run(), { read: 1, failed: 0 });
  t.deepEqual(await run(), { read: 0, failed: 0 });

  pass(1);
  control.addFault({ kind: "drop", method: "GET", path: "/v1/subscriptions", times: 3 });
  await t.throwsAsync(
    compareInvoices(deps, {
      readBefore: deps.clock.now(),
      signal: new AbortController().signal,
      intervalMs: 0,
      onFailure: () => undefined,
    }),
    { instanceOf: ProcessorUnavailableError },
  );
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

  const [all] = await sumDelivered(deps.db, customerId, [span], null);
  const [own] = await sumDelivered(deps.db, customerId, [span], separatedAt);

  t.is(all?.delivered, 7);
  t.is(own?.delivered, 2);
});
