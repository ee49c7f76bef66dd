import test from "ava";
import type { ExecutionContext } from "ava";
import type { Stripe } from "stripe";
import type { Period } from "../../../modules/billing/usage.rules.ts";
import {
  ProcessorUnavailableError,
  UsageUnreadableError,
} from "../../../modules/billing/processor.ts";
import { createStripeClient } from "../../../modules/billing/stripe/createStripeClient.ts";
import type { Control } from "../../stripeDouble/createControl.ts";
import { amendSubscription } from "./amendSubscription.ts";
import { never, setUpStripe } from "./stripeSetup.ts";

const HOUR = 3600;
const DAY = 24 * HOUR;

const at = (text: string): number => Date.parse(text) / 1000;

type Scene = {
  readonly control: Control;
  readonly stripe: Stripe;
  /** Creates a price: metered on the tree meter, or flat. */
  readonly price: (on: "meter" | "flat", interval?: "month" | "year") => Promise<string>;
  readonly customer: string;
  /** Creates a subscription with these prices, and returns its id. */
  readonly subscribe: (
    ...prices: readonly (readonly ["meter" | "flat", ("month" | "year")?])[]
  ) => Promise<string>;
  readonly period: (subscriptionId: string, signal?: AbortSignal) => Promise<Period | null>;
};

const stage = async (t: ExecutionContext, now: string): Promise<Scene> => {
  const { double, processor } = await setUpStripe(t);
  const { control, url: apiBase, secretKey } = double;
  control.holdClock({ second: at(now) });
  const { stripe } = createStripeClient({ apiBase, secretKey });
  const { tree: meter } = control.meterIds();
  const { customerId } = control.addCustomer({});
  const price: Scene["price"] = async (on, interval = "month") => {
    const { id } = await stripe.prices.create({
      currency: "usd",
      unit_amount: 100,
      product_data: { name: "Something" },
      recurring: { interval, ...(on === "meter" ? { usage_type: "metered", meter } : {}) },
    });
    return id;
  };
  return {
    control,
    stripe,
    customer: customerId,
    price,
    subscribe: async (...prices) => {
      const items: { price: string }[] = [];
      for (const each of prices) {
        items.push({ price: await price(...each) });
      }
      return (await stripe.subscriptions.create({ customer: customerId, items })).id;
    },
    period: async (subscriptionId, signal = never) =>
      (await processor.readSubscription(subscriptionId, signal)).periods.tree,
  };
};

const periodOf = (start: string, end: string): Period => ({
  start: new Date(start),
  end: new Date(end),
});

test("the period is that of the item with the meter, to the second", async (t) => {
  const { period, subscribe } = await stage(t, "2026-01-10T08:30:15Z");
  const id = await subscribe(["flat", "year"], ["meter"]);

  t.deepEqual(await period(id), periodOf("2026-01-10T08:30:15Z", "2026-02-10T08:30:15Z"));
});

/** A flat subscription, to which an item on the meter is added later, and the item's period. */
const ADDED: readonly {
  readonly title: string;
  readonly since: string;
  readonly interval?: "year";
  readonly anchor?: string;
  readonly addedAt: string;
  readonly start: string;
  readonly end: string;
}[] = [
  {
    title: "an item that was added later is the whole period",
    since: "2026-01-10T00:00:00Z",
    addedAt: "2026-03-20T12:00:00Z",
    start: "2026-03-10T00:00:00Z",
    end: "2026-04-10T00:00:00Z",
  },
  {
    title: "a monthly item that was added to a yearly subscription is the whole month",
    since: "2026-01-10T00:00:00Z",
    interval: "year",
    addedAt: "2026-03-20T12:00:00Z",
    start: "2026-03-10T00:00:00Z",
    end: "2026-04-10T00:00:00Z",
  },
  {
    title: "an item that was added in the subscription's first period starts with the subscription",
    since: "2026-01-10T00:00:00Z",
    anchor: "2026-02-01T00:00:00Z",
    addedAt: "2026-01-12T00:00:00Z",
    start: "2026-01-10T00:00:00Z",
    end: "2026-02-01T00:00:00Z",
  },
  {
    title: "a subscription that started on the 31st is the whole one in February",
    since: "2026-01-31T06:00:00Z",
    addedAt: "2026-02-20T00:00:00Z",
    start: "2026-01-31T06:00:00Z",
    end: "2026-02-28T06:00:00Z",
  },
  {
    title: "a subscription that started on the 31st is the whole one in March",
    since: "2026-01-31T06:00:00Z",
    addedAt: "2026-03-20T00:00:00Z",
    start: "2026-02-28T06:00:00Z",
    end: "2026-03-31T06:00:00Z",
  },
];

for (const { title, since, interval, anchor, addedAt, start, end } of ADDED) {
  test(`the period of ${title}`, async (t) => {
    const { control, stripe, customer, price, period } = await stage(t, since);
    const { id } = await stripe.subscriptions.create({
      customer,
      items: [{ price: await price("flat", interval) }],
      ...(anchor === undefined ? {} : { billing_cycle_anchor: at(anchor) }),
    });
    control.holdClock({ second: at(addedAt) });
    const added = { subscription: id, price: await price("meter") };
    const item = await stripe.subscriptionItems.create(added);

    t.is(item.current_period_start, at(addedAt));
    t.deepEqual(await period(id), periodOf(start, end));
  });
}

const TRIAL: Partial<Stripe.Subscription> = {
  status: "trialing",
  trial_start: at("2026-03-20T12:00:00Z"),
  trial_end: at("2026-03-30T00:00:00Z"),
  billing_cycle_anchor: at("2026-03-30T00:00:00Z"),
};

/** What Stripe returns of a metered subscription since January 10th, and the start of the item's period. */
const AMENDED: readonly {
  readonly title: string;
  readonly subscription?: Partial<Stripe.Subscription>;
  readonly created?: string;
  readonly start: string;
  readonly end: string;
  readonly expected: string;
}[] = [
  {
    title:
      "a trial of a running subscription begins a new period, because Stripe has invoiced the usage from before it",
    subscription: TRIAL,
    start: "2026-03-20T12:00:00Z",
    end: "2026-03-30T00:00:00Z",
    expected: "2026-03-20T12:00:00Z",
  },
  {
    title: "the period of an item that was added in a trial starts with the trial",
    subscription: TRIAL,
    created: "2026-03-22T00:00:00Z",
    start: "2026-03-22T00:00:00Z",
    end: "2026-03-30T00:00:00Z",
    expected: "2026-03-20T12:00:00Z",
  },
  {
    title: "the period of an item that was added after a trial starts with the end of the trial",
    // The owner kept the billing day, so the trial is followed by a short period.
    subscription: { ...TRIAL, status: "active", billing_cycle_anchor: at("2026-01-10T00:00:00Z") },
    created: "2026-04-02T00:00:00Z",
    start: "2026-04-02T00:00:00Z",
    end: "2026-04-10T00:00:00Z",
    expected: "2026-03-30T00:00:00Z",
  },
  {
    title: "a period that a billing threshold began starts there",
    start: "2026-03-24T00:00:00Z",
    end: "2026-04-10T00:00:00Z",
    expected: "2026-03-24T00:00:00Z",
  },
];

for (const { title, subscription = {}, created, start, end, expected } of AMENDED) {
  test(title, async (t) => {
    const scene = await stage(t, "2026-01-10T00:00:00Z");
    const id = await scene.subscribe(["meter"]);
    scene.control.holdClock({ second: at("2026-03-25T00:00:00Z") });
    const added = created === undefined ? {} : { created: at(created) };
    const item = { ...added, current_period_start: at(start), current_period_end: at(end) };
    await amendSubscription(scene, id, { subscription, item });

    t.deepEqual(await scene.period(id), periodOf(expected, end));
  });
}

test("the item is found among many others", async (t) => {
  const { period, subscribe } = await stage(t, "2026-01-10T00:00:00Z");
  const others = Array.from({ length: 12 }, () => ["flat"] as const);
  const id = await subscribe(...others, ["meter"]);

  t.deepEqual(await period(id), periodOf("2026-01-10T00:00:00Z", "2026-02-10T00:00:00Z"));
});

test("a subscription without an item on the meter, or one that ends as it begins, has no period", async (t) => {
  const { stripe, period, subscribe } = await stage(t, "2026-01-10T00:00:00Z");
  t.is(await period(await subscribe(["flat"])), null);
  const id = await subscribe(["meter"]);
  await stripe.subscriptions.cancel(id);
  t.is(await period(id), null);
});

test("a lost or late response about the period is an error that says so", async (t) => {
  const { control, period, subscribe } = await stage(t, "2026-01-10T00:00:00Z");
  const id = await subscribe(["meter"]);
  control.addFault({ kind: "drop", method: "GET", path: `/v1/subscriptions/${id}` });

  await t.throwsAsync(period(id), {
    instanceOf: ProcessorUnavailableError,
    message: /connection to Stripe/u,
  });
  await t.throwsAsync(period(id, AbortSignal.abort(new Error("too late"))), {
    instanceOf: ProcessorUnavailableError,
  });
});

test("usage is what was sent for the minute, less what was refunded", async (t) => {
  const {
    double,
    processor,
    customer: { customerId },
    event,
  } = await setUpStripe(t);
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

test("a span of incomplete minutes is rejected", async (t) => {
  const {
    processor,
    customer: { customerId },
  } = await setUpStripe(t);

  await t.throwsAsync(processor.sumUsage(customerId, "tree", { start: 30, end: 120 }, never), {
    message: /whole minutes/u,
  });
});

test("usage that cannot be read is an error, never 0", async (t) => {
  const {
    double,
    processor,
    customer: { customerId },
  } = await setUpStripe(t);
  const read = (id: string): Promise<number> =>
    processor.sumUsage(id, "tree", { start: 0, end: 60 }, never);
  const path = `/v1/billing/meters/${double.control.meterIds().tree}/event_summaries`;
  double.control.addFault({ kind: "server_error", method: "GET", path });

  await t.throwsAsync(read(customerId), { message: /unknown error/u });
  await t.throwsAsync(read("cus_gone"), {
    instanceOf: UsageUnreadableError,
    message: /No such customer/u,
  });
  await t.throwsAsync(
    processor.sumUsage(customerId, "tree", { start: 0, end: 60 }, AbortSignal.abort()),
  );
});
