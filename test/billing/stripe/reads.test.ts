import test from "ava";
import type { ExecutionContext } from "ava";
import type { Stripe } from "stripe";
import type { Period } from "../../../modules/billing/usage.rules.ts";
import {
  ProcessorUnavailableError,
  UsageUnreadableError,
} from "../../../modules/billing/processor.ts";
import { createStripeClient } from "../../../modules/billing/stripe/createStripeClient.ts";
import { connectStripe } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { refusal } from "../../stripeDouble/faults.ts";
import { amendSubscription, never, setUpStripe } from "./stripeSetup.ts";

const HOUR = 3600;
const DAY = 24 * HOUR;

const at = (text: string): number => Date.parse(text) / 1000;

const stage = async (t: ExecutionContext, now: string) => {
  const { double, processor } = await setUpStripe(t);
  const { control } = double;
  control.holdClock({ second: at(now) });
  const { customerId } = control.addCustomer({});
  return {
    control,
    stripe: createStripeClient(double.stripe).stripe,
    customerId,
    /** Creates a subscription with flat prices and one on the meter of trees, and returns its id. */
    subscribe: (flat: number, interval?: "month" | "year"): string =>
      control.addSubscription({
        customerId,
        prices: [
          ...Array.from({ length: flat }, () => control.addPrice({ interval })),
          control.addPrice({ kind: "tree" }),
        ],
      }),
    period: async (subscriptionId: string, signal = never): Promise<Period | null> =>
      (await processor.readSubscription(subscriptionId, signal)).periods.tree,
  };
};

const periodOf = (start: string, end: string) => ({ start: new Date(start), end: new Date(end) });

test("the period is that of the item with the meter, to the second, also among many others", async (t) => {
  const { period, subscribe } = await stage(t, "2026-01-10T08:30:15Z");
  const expected = periodOf("2026-01-10T08:30:15Z", "2026-02-10T08:30:15Z");

  t.deepEqual(await period(subscribe(1, "year")), expected);
  t.deepEqual(await period(subscribe(12)), expected);
});

/** When a flat subscription began, when an item on the meter was added to it, and the item's period. */
const ADDED: readonly (readonly [
  title: string,
  since: string,
  addedAt: string,
  period: readonly [start: string, end: string],
  options?: { readonly interval?: "year"; readonly anchor?: number },
])[] = [
  ["an item added later is a whole one", "2026-01-10", "2026-03-20", ["2026-03-10", "2026-04-10"]],
  [
    "a monthly item that was added to a yearly subscription is the whole month",
    "2026-01-10",
    "2026-03-20T12:00:00Z",
    ["2026-03-10", "2026-04-10"],
    { interval: "year" },
  ],
  [
    "an item that was added in the subscription's first period starts with the subscription",
    "2026-01-10",
    "2026-01-12",
    ["2026-01-10", "2026-02-01"],
    { anchor: at("2026-02-01") },
  ],
  [
    "a subscription that started on the 31st is the whole one in February",
    "2026-01-31T06:00:00Z",
    "2026-02-20",
    ["2026-01-31T06:00:00Z", "2026-02-28T06:00:00Z"],
  ],
  [
    "a subscription that started on the 31st is the whole one in March",
    "2026-01-31T06:00:00Z",
    "2026-03-20",
    ["2026-02-28T06:00:00Z", "2026-03-31T06:00:00Z"],
  ],
];

for (const [title, since, addedAt, expected, { interval, ...options } = {}] of ADDED) {
  test(`the period of ${title}`, async (t) => {
    const { control, customerId, period } = await stage(t, since);
    const prices = [control.addPrice({ interval })];
    const subscriptionId = control.addSubscription({ customerId, prices, ...options });
    control.holdClock({ second: at(addedAt) });
    control.addItem({ subscriptionId, price: control.addPrice({ kind: "tree" }) });

    t.deepEqual(await period(subscriptionId), periodOf(...expected));
  });
}

const TRIAL: Partial<Stripe.Subscription> = {
  status: "trialing",
  trial_start: at("2026-03-20T12:00:00Z"),
  trial_end: at("2026-03-30"),
  billing_cycle_anchor: at("2026-03-30"),
};

/** The start of a period that Stripe returns of a metered subscription since January 10th, its end, and its true start. */
const AMENDED: readonly (readonly [
  title: string,
  period: readonly [start: string, end: string, expected: string],
  subscription?: Partial<Stripe.Subscription>,
  created?: string,
])[] = [
  [
    "a trial of a running subscription begins a new period, because Stripe has invoiced the usage from before it",
    ["2026-03-20T12:00:00Z", "2026-03-30", "2026-03-20T12:00:00Z"],
    TRIAL,
  ],
  [
    "the period of an item that was added in a trial starts with the trial",
    ["2026-03-22", "2026-03-30", "2026-03-20T12:00:00Z"],
    TRIAL,
    "2026-03-22",
  ],
  [
    "the period of an item that was added after a trial starts with the end of the trial",
    ["2026-04-02", "2026-04-10", "2026-03-30"],
    // The owner kept the billing day, so the trial is followed by a short period.
    { ...TRIAL, status: "active", billing_cycle_anchor: at("2026-01-10") },
    "2026-04-02",
  ],
  ["a period that a threshold began starts there", ["2026-03-24", "2026-04-10", "2026-03-24"]],
];

for (const [title, [start, end, expected], subscription = {}, created] of AMENDED) {
  test(title, async (t) => {
    const scene = await stage(t, "2026-01-10");
    const id = scene.subscribe(0);
    scene.control.holdClock({ second: at("2026-03-25") });
    const added = created === undefined ? {} : { created: at(created) };
    const item = { ...added, current_period_start: at(start), current_period_end: at(end) };
    await amendSubscription(scene, id, { subscription, item });

    t.deepEqual(await scene.period(id), periodOf(expected, end));
  });
}

test("a subscription without an item on the meter, or one that ends as it begins, has no period", async (t) => {
  const { control, customerId, period, subscribe } = await stage(t, "2026-01-10");
  t.is(await period(control.addSubscription({ customerId, prices: [control.addPrice({})] })), null);
  const id = subscribe(0);
  control.cancel({ subscriptionId: id, when: "now_without_invoice" });
  t.is(await period(id), null);
});

test("a lost or late response about the period is an error that says so", async (t) => {
  const { control, period, subscribe } = await stage(t, "2026-01-10");
  const id = subscribe(0);
  control.addFault({ kind: "drop", method: "GET", path: `/v1/subscriptions/${id}` });

  const instanceOf = ProcessorUnavailableError;
  await t.throwsAsync(period(id), { instanceOf, message: /connection to Stripe/u });
  await t.throwsAsync(period(id, AbortSignal.abort(new Error("too late"))), { instanceOf });
});

test("usage is what was sent for the minute, less what was refunded", async (t) => {
  const { double, processor, customerId, event } = await setUpStripe(t);
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
    processor.sumUsage(customerId, "tree", { start, end }, never);

  t.is(await usage(hour, hour + 60), 10);
  t.is(await usage(hour - 60, hour + 120), 1110);
  t.is(await usage(hour - DAY, hour), 100);
  t.is(await usage(hour + 120, hour + 180), 0);
});

test("usage that cannot be read is an error, never 0", async (t) => {
  const { double, processor, customerId } = await setUpStripe(t);
  const read = (id: string, signal = never): Promise<number> =>
    processor.sumUsage(id, "tree", { start: 0, end: 60 }, signal);
  const path = `/v1/billing/meters/${double.control.meterIds().tree}/event_summaries`;
  double.control.addFault({ kind: "server_error", method: "GET", path });

  await t.throwsAsync(read(customerId), { message: /unknown error/u });
  const isGone = { instanceOf: UsageUnreadableError, message: /No such customer/u };
  await t.throwsAsync(read("cus_gone"), isGone);
  // Whether Stripe says so in these words, or with this code, is not documented.
  double.control.addFault(refusal(400, "You cannot do that.", { method: "GET", path, times: 2 }));
  const unexplained = await t.throwsAsync(read(customerId), { message: /You cannot/u });
  t.false(unexplained instanceof UsageUnreadableError);
  double.control.deleteCustomer({ customerId });
  await t.throwsAsync(read(customerId), isGone);
  await t.throwsAsync(read(customerId, AbortSignal.abort()));
});

test("a customer that Stripe does not know, or that was deleted, is named with the reason", async (t) => {
  const { double, customerId } = await setUpStripe(t);
  const { inspectCustomer } = connectStripe(double.stripe);
  t.is(await inspectCustomer(customerId), null);
  t.is(await inspectCustomer("cus_none"), "No such customer: 'cus_none'.");
  // The double forgets a deleted one.
  const path = `/v1/customers/${customerId}`;
  const body = { id: customerId, deleted: true };
  double.control.addFault({ kind: "respond", method: "GET", path, status: 200, body });
  t.is(await inspectCustomer(customerId), `Stripe's customer ${customerId} was deleted.`);
});
