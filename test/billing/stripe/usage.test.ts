import { UsageUnreadableError } from "../../../providers/billing/processor.ts";
import test from "ava";
import { never, setUpStripe } from "./stripeSetup.ts";

const HOUR = 3600;
const DAY = 24 * HOUR;

test("usage is what was sent for the minute, less what was refunded", async (t) => {
  const { double, processor, customer, event } = await setUpStripe(t);
  const hour = double.control.now() - (double.control.now() % HOUR) - HOUR;
  for (const [second, quantity] of [
    [hour - 1, 100],
    [hour, 5],
    [hour + 59, 7],
    [hour + 59, -2],
    [hour + 60, 1000],
  ] as const) {
    await processor.send(event({ second, quantity }), never);
  }
  const usage = (start: number, end: number): Promise<number> =>
    processor.sumUsage(customer, "tree", { start, end }, never);

  t.is(await usage(hour, hour + 60), 10);
  t.is(await usage(hour - 60, hour + 120), 1110);
  t.is(await usage(hour - DAY, hour), 100);
  t.is(await usage(hour + 120, hour + 180), 0);
});

test("usage of another meter or customer is not counted", async (t) => {
  const { double, processor, customer, event } = await setUpStripe(t);
  const start = double.control.now() - (double.control.now() % HOUR) - HOUR;
  await processor.send(event({ second: start, quantity: 5 }), never);
  const span = { start, end: start + 60 };
  const otherCustomer = { ...customer, customerId: double.control.addCustomer({}).customerId };

  t.is(await processor.sumUsage(customer, "bottle", span, never), 0);
  t.is(await processor.sumUsage(otherCustomer, "tree", span, never), 0);
});

test("usage that Stripe has not yet summed is missing", async (t) => {
  const { double, processor, customer, event } = await setUpStripe(t, { summaryDelaySeconds: 120 });
  const start = double.control.now() - (double.control.now() % 60) - 60;
  const span = { start, end: start + 60 };
  await processor.send(event({ second: start, quantity: 5 }), never);

  t.is(await processor.sumUsage(customer, "tree", span, never), 0);
  double.control.advanceClock({ seconds: 121 });
  t.is(await processor.sumUsage(customer, "tree", span, never), 5);
});

test("a span of incomplete minutes is rejected", async (t) => {
  const { processor, customer } = await setUpStripe(t);

  await t.throwsAsync(processor.sumUsage(customer, "tree", { start: 30, end: 120 }, never), {
    message: /whole minutes/u,
  });
});

test("without a customer there is no usage", async (t) => {
  const { processor, customer } = await setUpStripe(t);
  const withoutCustomer = { ...customer, customerId: null };

  t.is(await processor.sumUsage(withoutCustomer, "tree", { start: 0, end: 60 }, never), 0);
});

test("usage that cannot be read is an error, never 0", async (t) => {
  const { double, processor, customer } = await setUpStripe(t);
  const read = (customerId: string | null): Promise<number> =>
    processor.sumUsage({ ...customer, customerId }, "tree", { start: 0, end: 60 }, never);
  const path = `/v1/billing/meters/${double.control.meterIds().tree}/event_summaries`;
  double.control.addFault({ kind: "server_error", method: "GET", path });

  await t.throwsAsync(read(customer.customerId), { message: /unknown error/u });
  await t.throwsAsync(read("cus_gone"), {
    instanceOf: UsageUnreadableError,
    message: /No such customer/u,
  });
  await t.throwsAsync(
    processor.sumUsage(customer, "tree", { start: 0, end: 60 }, AbortSignal.abort()),
  );
});
