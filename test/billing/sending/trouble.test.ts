import { SHARDS, shardOf } from "../../../db/shards.rules.ts";
import { sendMeterEvent } from "../drainUsage.ts";
import type { Fault } from "../../stripeDouble/faults.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

test("the shard of an account is the last byte of its id modulo the number of shards", (t) => {
  t.is(SHARDS, 4);
  t.is(shardOf("01920000-0000-7000-8000-000000000000"), 0);
  t.is(shardOf("01920000-0000-7000-8000-0000000000ff"), 3);
  t.is(shardOf("01920000-0000-7000-8000-0000000000F6"), 2);
});

const HOUR = 60 * 60;

test("each event's delay counts its own failures, so a stream whose calls often fail does not fall behind", async (t) => {
  const { double, register, pass, drainOnce, billed, recorded } = await setUpBilling(t);
  for (let count = 1; count <= 8; count += 1) {
    double.control.addFault({ kind: "server_error", mentioning: `:${double.control.now()}:` });
    await register(count);
    pass(1);
  }
  pass(5);

  for (let count = 1; count <= 8; count += 1) {
    const result = await drainOnce();
    t.true(result.kind === "delayed" && result.afterMs <= 1000);
  }
  t.is((await drainOnce()).kind, "done");

  t.deepEqual(billed(), await recorded());
});

const givesWay = test.macro({
  exec: async (t, lead: number, faults: readonly Fault[]) => {
    const { register, pass, deps, seal, drain, double, billed, recorded, events } =
      await setUpBilling(t);
    const { control } = double;
    pass(lead);
    const ahead = control.now();
    await register(5);
    pass(5);
    const { id = 0n } = (await seal()) ?? {};
    const fast = deps.clock.now();
    pass(-lead);
    for (const fault of faults) {
      control.addFault(fault);
    }
    const { signal } = new AbortController();
    t.like(await sendMeterEvent({ ...deps, clock: { now: () => fast } }, id, signal), {
      kind: "delayed",
      cause: "retry",
    });

    // Our clock is corrected.
    const second = control.now();
    await register(7);
    await drain();

    t.true(control.now() < ahead);
    t.deepEqual(billed(), { [second]: 7 });
    t.deepEqual(await events(), [{ state: "delivered", quantity: 7 }]);
    control.holdClock({ second: ahead });
    await drain();
    t.deepEqual(billed(), { [second]: 7, [ahead]: 5 });
    t.deepEqual(billed(), await recorded());
  },
  title: (call = "") => `after a fast clock is corrected, usage does not wait for usage ${call}`,
});
test("that Stripe refused as ahead of its clock", givesWay, 2 * HOUR, []);
test("whose call was lost", givesWay, 48 * HOUR, [{ kind: "drop" }]);
