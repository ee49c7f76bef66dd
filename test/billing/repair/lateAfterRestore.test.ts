import test from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { resolveBillingCycle } from "../../../modules/billing/resolveBillingCycle.ts";
import { readJson } from "../../cli/runImpact.ts";
import { setUpRestore } from "./restoreSetup.ts";
import { LAG_SECONDS, setUpRetried } from "./retriedSetup.ts";

const DAY = 24 * 60 * 60;
const LIST_LATE = ["usage", "list", "--state", "late", "--json"] as const;

const listed = z.array(z.looseObject({ meter_event_id: z.int() }));

type Scene = Pick<Awaited<ReturnType<typeof setUpRestore>>, "impact" | "original">;

/** Requires that exactly one event is listed as late, and that it can be settled. */
const requireLate = async (
  t: ExecutionContext,
  { impact }: Scene,
  restored: Scene["original"],
  units: number,
): Promise<void> => {
  const late = listed.parse(readJson(await impact(restored, ...LIST_LATE)));
  t.like(late, [{ state: "delivered", quantity: units }]);
  const document = ["--invoice-item", "ii_1", "--reason", "billed late"];
  const settled = await impact(
    restored,
    "usage",
    "settle",
    String(late[0]?.meter_event_id),
    ...document,
  );
  t.is(settled.exitCode, 0, settled.stderr);
  t.deepEqual(readJson(await impact(restored, ...LIST_LATE)), []);
};

/** Usage that is pending at the restored time, a day before its period's end, and that the lost history sends. */
const setUpPending = async (t: ExecutionContext, sentAfterSeconds: number) => {
  const scene = await setUpRestore(t);
  const { original, stream, pass } = scene;
  await resolveBillingCycle(original.deps, stream);
  pass(30 * DAY);
  await scene.register(original, 5);
  const { continued, restored } = await scene.fork(original);
  pass(sentAfterSeconds);
  await scene.drain(continued);
  t.is(scene.control.usage({ customerId: scene.customerId }).length, 1);
  await guardUsage(restored.deps);
  return {
    ...scene,
    restored,
    compare: async () => {
      pass(LAG_SECONDS);
      const run = await scene.impact(restored, "usage", "compare-and-release");
      t.is(run.exitCode, 0, run.stdout + run.stderr);
      return run;
    },
  };
};

test("usage that a comparison finds delivered is late if its period ended before the hold", async (t) => {
  const { compare, ...scene } = await setUpPending(t, 3 * DAY);

  const compared = await compare();

  t.regex(
    compared.stderr,
    /^1 delivered event may not be on any invoice.*usage list --state late/mu,
  );
  t.notRegex(compared.stderr, /billing period of event/u);
  await requireLate(t, scene, scene.restored, 5);
});

test("usage that a comparison finds delivered is not late if its period ended only after the hold had begun", async (t) => {
  const { compare, impact, restored, pass } = await setUpPending(t, 5);
  pass(3 * DAY);

  const compared = await compare();

  t.notRegex(compared.stderr, /billing period|invoice/u);
  t.deepEqual(readJson(await impact(restored, ...LIST_LATE)), []);
});

test("a part that a comparison finds delivered is late as well", async (t) => {
  const { compare, ...scene } = await setUpPending(t, 3 * DAY);
  const { control, restored, customerId } = scene;
  const [sent] = control.usage({ customerId });
  await scene.reportElsewhere(-2, sent?.second ?? 0);

  await compare();

  t.like(readJson(await scene.impact(restored, ...LIST_LATE)), [{ quantity: 3 }]);
  await scene.drain(restored);
  t.like(readJson(await scene.impact(restored, ...LIST_LATE)), [{ quantity: 2 }, { quantity: 3 }]);
});

test("usage that a retry finds delivered is late if its period has ended", async (t) => {
  const scene = await setUpRetried(t);
  const { restored, stream, pass, usageId } = scene;
  await resolveBillingCycle(restored.deps, stream);
  await scene.compare();
  pass(31 * DAY);

  t.like(await scene.check(usageId), [{ result: "delivered" }]);

  await requireLate(t, scene, restored, 10);
});

test("usage that a retry finds at an earlier customer is not late: the periods are the present one's", async (t) => {
  const scene = await setUpRetried(t);
  const { restored, stream, pass, usageId, impact, control } = scene;
  await resolveBillingCycle(restored.deps, stream);
  await scene.compare();
  pass(31 * DAY);
  const { customerId } = control.addCustomer({});
  const updated = await impact(
    restored,
    "org",
    "update",
    stream.accountId,
    "--stripe-customer",
    customerId,
  );
  t.is(updated.exitCode, 0, updated.stderr);

  t.like(await scene.check(usageId), [{ result: "delivered" }]);

  t.deepEqual(readJson(await impact(restored, ...LIST_LATE)), []);
});
