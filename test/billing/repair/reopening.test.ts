import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { releaseFacts } from "../../../db/billing/usageFacts.ts";
import { reopenUsage } from "../../../services/billing/reopenUsage.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpBilling } from "../billingSetup.ts";
import type { BillingSetup } from "../billingSetup.ts";

const test = testWithDatabase();

const LAG_SECONDS = 16 * 60;

const idsOf = ({ deps, stream }: BillingSetup): Promise<readonly bigint[]> =>
  deps.db.anyFirst(sql.type(z.strictObject({ id: z.bigint() }))`
    SELECT id
    FROM meter_event
    WHERE account_id = ${stream.accountId}
    ORDER BY id
  `);

/** Delivers usage that Stripe then loses without a report. */
const loseUsage = async (setup: BillingSetup, units: number): Promise<bigint> => {
  setup.double.control.addFault({ kind: "reject_later" });
  await setup.register(units);
  await setup.drain();
  return (await idsOf(setup)).at(-1) ?? 0n;
};

const reopen = ({ deps }: BillingSetup, id: bigint, isDryRun = false) =>
  reopenUsage(deps, id, { reason: "lost at Stripe", isDryRun });

test("usage that Stripe lost is reopened and billed once", async (t) => {
  const setup = await setUpBilling(t);
  const { register, drain, events, billed, recorded, pass } = setup;
  await register(3);
  await drain();
  const lost = await loseUsage(setup, 7);
  pass(LAG_SECONDS);

  t.deepEqual(await reopen(setup, lost, true), { quantity: 7 });
  t.deepEqual(await events(), [
    { state: "delivered", quantity: 3 },
    { state: "delivered", quantity: 7 },
  ]);
  t.deepEqual(await reopen(setup, lost), { quantity: 7 });
  await drain();

  t.deepEqual(await events(), [
    { state: "delivered", quantity: 3 },
    { state: "superseded", quantity: 7 },
    { state: "delivered", quantity: 7 },
  ]);
  t.deepEqual(billed(), await recorded());
  const note = await setup.deps.db.oneFirst(sql.type(z.strictObject({ note: z.string() }))`
    SELECT last_error AS note
    FROM meter_event
    WHERE id = ${lost}
  `);
  t.is(note, "reopened: lost at Stripe");
});

test("an event is not reopened while the sums may lag, if Stripe has it, or if they fit neither", async (t) => {
  const setup = await setUpBilling(t);
  const { register, drain, billed, recorded, events } = setup;
  await register(3);
  await drain();
  const [delivered = 0n] = await idsOf(setup);
  await t.throwsAsync(reopen(setup, delivered), { message: /the processor has its usage/u });

  const other = await setUpBilling(t);
  const second = other.double.control.now();
  const lost = await loseUsage(other, 7);
  await t.throwsAsync(reopen(other, lost), { message: /may lag/u });
  other.pass(LAG_SECONDS);
  await other.reportElsewhere(2, second);
  await t.throwsAsync(reopen(other, lost), {
    message: /the processor has 2 units in that minute that no other/u,
  });

  t.deepEqual(await events(), [{ state: "delivered", quantity: 3 }]);
  t.deepEqual(billed(), await recorded());
});

test("an event whose facts were released to a later one is not reopened", async (t) => {
  const setup = await setUpBilling(t);
  const lost = await loseUsage(setup, 7);
  setup.pass(LAG_SECONDS);
  await setup.deps.db.transaction((transaction) => releaseFacts(transaction, lost, 3));
  await t.throwsAsync(reopen(setup, lost), { message: /sealed again in a later event/u });
});

test("only delivered events are reopened, and only once at a time", async (t) => {
  const setup = await setUpBilling(t);
  const lost = await loseUsage(setup, 7);
  setup.pass(LAG_SECONDS);
  const results = await Promise.allSettled([reopen(setup, lost), reopen(setup, lost)]);
  t.is(results.filter(({ status }) => status === "fulfilled").length, 1);
  await t.throwsAsync(reopen(setup, lost), { message: /is superseded: only delivered/u });
  await t.throwsAsync(reopen(setup, 999_999n), { message: /meter event 999999 not found/u });
  await setup.drain();
  t.deepEqual(setup.billed(), await setup.recorded());
});
