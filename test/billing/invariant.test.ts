import { z } from "zod";
import type { Fault } from "../stripeDouble/faults.ts";
import { reconcileUsage } from "../../services/billing/reconcileUsage.ts";
import { testWithDatabase } from "../support/database.ts";
import { readBooks } from "../support/books.ts";
import { createRandom } from "../support/random.ts";
import { setUpBilling } from "./billingSetup.ts";

const test = testWithDatabase();

const FAULTS: readonly Fault[] = [
  { kind: "drop" },
  { kind: "drop", applied: true },
  { kind: "truncate", applied: true },
  { kind: "server_error" },
  { kind: "server_error_saved" },
  { kind: "server_error_saved", applied: true },
  { kind: "rate_limit" },
  { kind: "lock_timeout" },
  { kind: "bad_gateway" },
  { kind: "bad_gateway", applied: true },
  { kind: "broken_json", applied: true },
  {
    kind: "respond",
    status: 400,
    body: { error: { type: "invalid_request_error", message: "No such customer: 'cus_gone'" } },
  },
];

const meters = z.object({ data: z.array(z.object({ id: z.string(), event_name: z.string() })) });

/** Where the double tells the sums of the trees' meter. */
const summariesPath = async (url: string, secretKey: string): Promise<string> => {
  const response = await fetch(`${url}/v1/billing/meters`, {
    headers: { authorization: `Bearer ${secretKey}` },
  });
  const { data } = meters.parse(await response.json());
  const trees = data.find(({ event_name: name }) => name === "impact_tree_planted");
  return `/v1/billing/meters/${trees?.id ?? ""}/event_summaries`;
};

const keepsInvariant = test.macro({
  exec: async (t, seed: number) => {
    const { register, refund, pass, drain, drainOnce, retryFailed, ...setup } =
      await setUpBilling(t);
    const { double, deps, stream, billed, recorded } = setup;
    const { next, below } = createRandom(seed);
    const ids: string[] = [];

    for (let step = 0; step < 60; step += 1) {
      const choice = next();
      if (choice < 0.45) {
        ids.push(await register(1 + below(20)));
      } else if (choice < 0.65 && ids.length > 0) {
        await refund(ids[below(ids.length)] ?? "", 1 + below(5)).catch(() => undefined);
      } else if (choice < 0.8) {
        double.control.addFault(FAULTS[below(FAULTS.length)] ?? { kind: "drop" });
        await drainOnce();
      } else {
        pass(below(6));
        await drainOnce();
      }
    }
    double.control.clearFaults();
    await drain();
    // Until then Stripe's sums may lag.
    pass(16 * 60);
    await retryFailed();
    await drain();

    t.deepEqual(billed(), await recorded());
    const books = await readBooks(deps.db, stream.accountId);
    t.is(books.usage, books.registered - books.refunded);
    t.is(books.total, books.registered - books.refunded);
    const identifiers = double.control.events().map(({ identifier }) => identifier);
    t.is(new Set(identifiers).size, identifiers.length);
    t.is(double.control.overlaps(), 0);
    t.deepEqual(double.control.problems(), []);
  },
  title: (_, seed) =>
    `after any faults and a drain, Stripe has registered less refunded at each second (sequence ${String(seed)})`,
});

for (const seed of [1, 2, 3, 5, 8, 13, 21, 34, 55, 89]) {
  test(keepsInvariant, seed);
}

test("reconciliation finds nothing where the processor has what was delivered", async (t) => {
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

test("reconciliation tells the minutes in which the processor differs", async (t) => {
  const { register, drain, pass, deps, stream, double, customerId } = await setUpBilling(t);
  const second = double.control.now();
  await register(7);
  pass(5 * 3600);
  await register(3);
  await drain();
  pass(3600);
  await fetch(`${double.url}/v1/billing/meter_events`, {
    method: "POST",
    headers: { authorization: `Bearer ${double.secretKey}` },
    body: new URLSearchParams({
      event_name: "impact_tree_planted",
      "payload[stripe_customer_id]": customerId,
      "payload[value]": "2",
      timestamp: String(second),
    }),
  });

  const { streams } = await reconcileUsage(
    deps,
    { accountId: stream.accountId },
    new AbortController().signal,
  );

  const minute = second - (second % 60);
  t.like(streams[0], { delivered: 10, processorQuantity: 12, drift: 2 });
  t.deepEqual(streams[0]?.differences, [{ minute, ours: 7, processor: 9, mayLag: false }]);
});

test("reconciliation tells of a stream that the processor cannot be asked about, and compares the others", async (t) => {
  const { register, drain, pass, deps, stream, double } = await setUpBilling(t);
  await register(7);
  await drain();
  pass(3600);
  double.control.addFault({
    kind: "respond",
    method: "GET",
    path: await summariesPath(double.url, double.secretKey),
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
