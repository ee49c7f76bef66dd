import { sql } from "../../../db/sql.ts";
import { systemClock } from "../../../domain/clock.ts";
import { createBilling } from "../../../providers/billing/createBilling.ts";
import {
  defaultSpan,
  reconcileUsage,
} from "../../../services/billing/reconciliation/reconcileUsage.ts";
import { createYieldingPace } from "../../support/bulkPaces.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";

const test = testWithDatabase();

test("a reconciliation that yields reads sums in parts, and reports the same", async (t) => {
  const { db } = t.context;
  const now = systemClock.now();
  const clock = { now: () => now };
  const span = defaultSpan(now);
  const { id: equal } = await createTestOrganization(db, { name: "Equal" });
  const { id: drifting } = await createTestOrganization(db, { name: "Drifting" });
  // One event in each quarter of an hour, from the first to the last second of the span.
  await db.query(sql.typeAlias("void")`
    WITH sealed AS (
      INSERT INTO meter_event
        (account_id, mode, meter, second, sequence, quantity, identifier, processor, state, sealed_at, settled_at)
      SELECT
        account_id, 'live', 'tree', least(second, ${span.end - 1}), 1, 3,
        account_id || ':' || second, 'ledger', 'delivered', now(), now()
      FROM unnest(${sql.array([equal, drifting], "uuid")}) AS account_id
      CROSS JOIN generate_series(${span.start}::bigint, ${span.end}::bigint, 900) AS second
      RETURNING identifier, account_id, second, quantity
    )
    INSERT INTO ledger_usage (identifier, account_id, mode, meter, second, quantity, recorded_at)
    SELECT identifier, account_id, 'live', 'tree', second, quantity, now()
    FROM sealed
    -- One event of one account is not in the ledger.
    WHERE NOT (account_id = ${drifting} AND second = ${span.start})
  `);
  const pace = createYieldingPace();
  const signal = new AbortController().signal;
  const reconcile = async (given: { readonly pace?: typeof pace }) => {
    const billing = createBilling({ db, stripe: null, ...given });
    const { streams } = await reconcileUsage({ db, clock, billing, ...given }, { span }, signal);
    return streams.filter(({ accountIds }) => [equal, drifting].includes(accountIds[0]));
  };

  const usual = await reconcile({});
  t.deepEqual(
    usual.map(({ accountName, drift }) => ({ accountName, drift })),
    [
      { accountName: "Drifting", drift: -3 },
      { accountName: "Equal", drift: 0 },
    ],
  );
  t.deepEqual(await reconcile({ pace }), usual);
  // 35 days in parts of an hour for our sums, and of a day for the ledger's of two streams.
  t.true(pace.stepCount() > 35 * 24 + 2 * 35, String(pace.stepCount()));
});
