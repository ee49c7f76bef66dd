import type { ExecutionContext } from "ava";
import { z } from "zod";
import { listFailedMeterEventIds } from "../../../modules/billing/meterEventReports.sql.ts";
import { sql } from "../../../db/sql.ts";
import { retryUsage } from "../../../modules/billing/reconciliation/retryUsage.ts";
import { settleUsage, waiveUsage } from "../../../modules/billing/reconciliation/closeUsage.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

/** Longer than Stripe's sums may lag. */
const LAG_SECONDS = 16 * 60;

const REFUSAL = { error: { type: "invalid_request_error", message: "Refused for the test." } };

/** Of 10 units, Stripe has 6. The rest was rejected and waived. */
const setUpPart = async (t: ExecutionContext<DatabaseContext>) => {
  const setup = await setUpBilling(t);
  const { deps, stream, register, drain, drainOnce, pass, double } = setup;
  const refuse = () => double.control.addFault({ kind: "respond", status: 400, body: REFUSAL });
  const findFailedId = async () => (await listFailedMeterEventIds(deps.db, stream))[0] ?? 0n;
  const second = double.control.now();
  const id = await register(10);
  pass(5);
  double.control.addFault({ kind: "drop" });
  refuse();
  await drainOnce();
  await drain();
  await setup.reportElsewhere(6, second);
  pass(LAG_SECONDS);
  t.is(await retryUsage(deps, await findFailedId()), "waiting");
  refuse();
  await drain();
  await waiveUsage(deps, await findFailedId(), "never billed");
  return {
    ...setup,
    /** Refunds units, and returns the id of their event. */
    refund: async (units: number): Promise<bigint> => {
      await setup.refund(id, units);
      await drain();
      t.deepEqual((await setup.events()).at(-1), { state: "held", quantity: -units });
      return deps.db.oneFirst(sql.type(z.strictObject({ id: z.bigint() }))`
        SELECT max(id) AS id FROM meter_event WHERE account_id = ${stream.accountId}
      `);
    },
  };
};

test("a refund of usage of which the processor has a part is closed with a credit note only", async (t) => {
  const { deps, refund } = await setUpPart(t);
  const refunded = await refund(10);

  await t.throwsAsync(waiveUsage(deps, refunded, "never billed"), {
    message: /of which the processor has a part, with 6 units of this refund/u,
  });

  const document = { kind: "credit_note", reference: "cn_1" } as const;
  const options = { reason: "refunded", expectedUnits: -10 };
  t.like(await settleUsage(deps, refunded, document, options), { replayed: false });
});

test("the part of usage that the processor has counts as what its refunds leave of it", async (t) => {
  const { deps, refund } = await setUpPart(t);
  await waiveUsage(deps, await refund(3), "never billed");
  await waiveUsage(deps, await refund(1), "never billed");

  const last = await refund(2);

  await t.throwsAsync(waiveUsage(deps, last, "never billed"), { message: /with 2 units of this/u });
});
