import { minuteOf } from "../../../modules/billing/usage.rules.ts";
import type { Billing } from "../../../modules/billing/createBilling.ts";
import type { BillingProcessor } from "../../../modules/billing/processor.ts";
import {
  listStreamsNeedingAttention,
  reconcileUsage,
} from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import type { StreamReport } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { drainUsage } from "../drainUsage.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { BillingSetup } from "../billingSetup.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

const signal = new AbortController().signal;

/** The minute in which a test's usage is registered and sent. */
const minuteNow = ({ double }: BillingSetup) => minuteOf(double.control.now());

/** Returns the processors with another way to make some of their calls. */
const replaceCalls = (
  billing: Billing,
  replace: (processor: BillingProcessor) => Partial<BillingProcessor>,
): Billing => ({
  ...billing,
  findProcessor: (name, mode) => {
    const processor = billing.findProcessor(name, mode);
    return processor && { ...processor, ...replace(processor) };
  },
});

test("usage and refunds that the processor has before the sender records it are no drift", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, stream, register, refund, pass } = setup;
  const span = minuteNow(setup);
  const found: StreamReport[] = [];
  const billing = replaceCalls(deps.billing, (processor) => ({
    send: async (...given) => {
      const outcome = await processor.send(...given);
      const { streams } = await reconcileUsage(deps, { ...stream, span }, signal);
      found.push(...streams);
      return outcome;
    },
  }));
  const drain = () =>
    drainUsage({ ...deps, billing }, stream, { signal, onResult: () => undefined });
  const id = await register(7);
  pass(5);
  await drain();
  await refund(id, 2);
  pass(5);
  await drain();

  t.like(found[0], { delivered: 0, processorQuantity: 7, drift: 7 });
  t.like(found[1], { delivered: 7, processorQuantity: 5, drift: -2 });
  t.deepEqual(listStreamsNeedingAttention(found), []);
});

test("usage that is sent while the processor's sums are read is no drift", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, stream, register, drain } = setup;
  const span = minuteNow(setup);
  await register(7);
  await drain();
  const billing = replaceCalls(deps.billing, (processor) => ({
    sumUsage: async (...given) => {
      await register(1);
      await drain();
      return processor.sumUsage(...given);
    },
  }));

  const { streams } = await reconcileUsage({ ...deps, billing }, { ...stream, span }, signal);

  t.like(streams[0], { delivered: 8, processorQuantity: 9, drift: 1 });
  t.deepEqual(listStreamsNeedingAttention(streams), []);
});

test("usage whose attempt may have been accepted is no drift, however long ago that was", async (t) => {
  const setup = await setUpBilling(t);
  const { deps, stream, register, drainOnce, pass, double } = setup;
  const span = minuteNow(setup);
  await register(7);
  pass(5);
  double.control.addFault({ kind: "drop", applied: true });
  t.like(await drainOnce(), { kind: "delayed" });
  pass(3600);

  const { streams } = await reconcileUsage(deps, { ...stream, span }, signal);

  t.like(streams[0], { delivered: 0, processorQuantity: 7, drift: 7 });
  t.deepEqual(listStreamsNeedingAttention(streams), []);
});
