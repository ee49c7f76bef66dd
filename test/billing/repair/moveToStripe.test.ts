import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { connectStripe } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { moveToStripe } from "../../../modules/billing/moveToStripe.ts";
import { drainUsage } from "../drainUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { refundRegistration } from "../../../modules/registrations/refundRegistration.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { copyDatabase, openTestPool, testWithDatabase } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";

const test = testWithDatabase();

/** More than a statement moves, in seconds with two events. */
const EVENTS = 10_003;

const storedRow = z.strictObject({
  superseded: z.int(),
  notes: z.array(z.string()),
  unsealed: z.int(),
  alreadyReported: z.int(),
  ledgerEntries: z.int(),
  ledgerUnits: z.int(),
});

test("a few statements move the usage of a stream to Stripe", async (t) => {
  const { owner } = t.context;
  const double = await startStripeDouble();
  t.teardown(double.close);
  let queries = 0;
  const db = await openTestPool(t, t.context.databaseUrl, 1, {
    interceptors: [
      {
        name: "count-queries",
        beforeQueryExecution: () => {
          queries += 1;
          return null;
        },
      },
    ],
  });
  const billing = createBilling({
    db,
    stripe: connectStripe({ secretKey: double.secretKey, apiBase: double.url }),
  });
  const { customerId } = double.control.addCustomer({});
  const { id: accountId } = await createTestOrganization(db, { stripeCustomerId: customerId });
  await owner.query(sql.typeAlias("void")`
    WITH event AS (
      INSERT INTO meter_event
        (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, last_error, sealed_at)
      SELECT
        ${accountId}, 'live', 'tree', extract(epoch FROM now())::bigint + number / 2, number % 2, 2, 'event-' || number,
        'ledger', CASE number WHEN 1 THEN 'sending' ELSE 'delivered' END, CASE number WHEN 2 THEN 'busy' END, now()
      FROM generate_series(1, ${EVENTS}::integer) AS number
      RETURNING *
    ),
    entry AS (
      INSERT INTO ledger_usage (identifier, account_id, mode, kind, second, quantity, recorded_at)
      SELECT identifier, account_id, mode, kind, second, quantity, now() FROM event WHERE state = 'delivered'
    )
    INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, already_reported, second, meter_event_id)
    SELECT account_id, mode, kind, 0, 3, 1, second, id FROM event
  `);
  const move = (isDryRun: boolean) =>
    moveToStripe(
      { db, billing, clock: systemClock, actor: SERVICE },
      { isDryRun, operator: "maria" },
    );
  const moved = [
    { events: EVENTS - 1, quantity: 2 * (EVENTS - 1), unfinished: 1, kind: "tree", accountId },
  ];

  t.like((await move(true)).usage, moved);
  queries = 0;
  t.like((await move(false)).usage, moved);
  t.true(queries < 50, `${queries} queries`);
  t.like((await move(false)).usage, [{ events: 0, quantity: 0, unfinished: 1 }]);

  const stored = await db.one(sql.type(storedRow)`
    SELECT
      count(*) FILTER (WHERE state = 'superseded')::integer AS superseded,
      array_agg(DISTINCT last_error ORDER BY last_error) FILTER (WHERE last_error IS NOT NULL) AS notes,
      (SELECT count(*)::integer FROM usage_fact WHERE meter_event_id IS NULL) AS unsealed,
      (SELECT sum(already_reported)::integer FROM usage_fact) AS "alreadyReported",
      (SELECT count(*)::integer FROM ledger_usage) AS "ledgerEntries",
      (SELECT sum(quantity)::integer FROM ledger_usage) AS "ledgerUnits"
    FROM meter_event
  `);
  t.deepEqual(stored, {
    superseded: EVENTS - 1,
    notes: ["moved to Stripe", "moved to Stripe; before: busy"],
    unsealed: EVENTS - 1,
    // Of the unfinished event, which has not moved.
    alreadyReported: 1,
    ledgerEntries: 2 * (EVENTS - 1),
    ledgerUnits: 0,
  });
});

test("usage that was offset against a refund of usage in the ledger is refunded at Stripe after a move", async (t) => {
  const db = await openTestPool(t, await copyDatabase(t));
  const double = await startStripeDouble();
  t.teardown(double.close);
  const billing = createBilling({
    db,
    stripe: connectStripe({ secretKey: double.secretKey, apiBase: double.url }),
  });
  const { customerId } = double.control.addCustomer({});
  const { id: accountId } = await createTestOrganization(db, { stripeCustomerId: customerId });
  const past = new Date(Date.now() - 10_000);
  const second = Math.floor(past.getTime() / 1000);
  const deps = { db, billing, clock: systemClock, actor: SERVICE };
  const stream = { accountId, mode: "live", kind: "tree" } as const;
  const writer = createRegistrationWriter({ db, clock: { now: () => past } });
  const register = async (): Promise<string> => {
    const { registration } = await writer.register(registrationOf(accountId, { count: 5 }));
    return registration.id;
  };
  const refund = (id: string) =>
    refundRegistration(
      deps,
      { accountId, mode: "live", kind: "tree" },
      { id, count: 5, reason: null, idempotencyKey: null },
    );
  const seal = (sequence: number, state: "delivered" | "void", quantity: number) =>
    db.query(sql.typeAlias("void")`
      WITH event AS (
        INSERT INTO meter_event
          (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at)
        VALUES
          (
            ${accountId}, 'live', 'tree', ${second}, ${sequence}, ${quantity}, ${`${accountId}:${sequence}`}, 'ledger',
            ${state}, now()
          )
        RETURNING *
      ),
      entry AS (
        INSERT INTO ledger_usage (identifier, account_id, mode, kind, second, quantity, recorded_at)
        SELECT identifier, account_id, mode, kind, second, quantity, now() FROM event WHERE state = 'delivered'
      )
      UPDATE usage_fact
      SET meter_event_id = event.id
      FROM event
      WHERE usage_fact.account_id = event.account_id AND meter_event_id IS NULL
    `);
  const drain = () =>
    drainUsage(deps, stream, { signal: new AbortController().signal, onResult: () => undefined });
  const sumBilled = (): number =>
    double.control.usage({ customerId }).reduce((sum, { value }) => sum + value, 0);
  const delivered = await register();
  await seal(1, "delivered", 5);
  // It has the second of the first one, and is sealed with the refund of that.
  const offset = await register();
  await refund(delivered);
  await seal(2, "void", 0);
  await moveToStripe(deps, { isDryRun: false, operator: "maria" });
  await billing.prepare();
  await drain();
  t.is(sumBilled(), 5);

  await refund(offset);
  await drain();

  t.is(sumBilled(), 0);
});
