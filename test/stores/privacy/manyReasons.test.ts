import { sql } from "../../../db/sql.ts";
import { systemClock } from "../../../domain/clock.ts";
import { MAXIMUM_CUSTOMER_RECORDS } from "../../../domain/stores/customerIdentity.ts";
import { exportCustomer } from "../../../services/stores/privacy/exportCustomer.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestStore } from "../startStoreApi.ts";

const test = testWithDatabase();

const CUSTOMER = { ids: ["7"], emails: [], orderIds: [] };

/** Inserts registrations of a customer, each a day older than the one before, with refunds of one unit each. */
const insertRefunds = async (
  { owner }: DatabaseContext,
  storeId: string,
  refunds: readonly number[],
): Promise<void> => {
  await owner.query(sql.typeAlias("void")`
    WITH inserted AS (
      INSERT INTO registration
        (id, account_id, mode, kind, count, refunded_count, created_at, customer_id, unit_price_cents)
      SELECT gen_random_uuid(), ${storeId}, 'live', 'tree', 100000, refunds, now() - make_interval(days => place::int), '7', 0
      FROM unnest(${sql.array([...refunds], "int4")}) WITH ORDINALITY AS given (refunds, place)
      RETURNING id, account_id, refunded_count, created_at
    )
    INSERT INTO refund (id, registration_id, account_id, count, reason, created_at)
    SELECT gen_random_uuid(), id, account_id, 1, number::text, created_at + make_interval(secs => number)
    FROM inserted
    CROSS JOIN LATERAL generate_series(1, refunded_count) AS number
  `);
};

const exportOf = ({ db }: DatabaseContext, storeId: string) =>
  exportCustomer({ db, clock: systemClock, actor: { kind: "platform" } }, storeId, CUSTOMER);

test("an export has all reasons of refunds, oldest first", async (t) => {
  const store = await createTestStore(t.context.db);
  await insertRefunds(t.context, store.id, [2, 0, 150]);

  const { registrations, hasMore } = await exportOf(t.context, store.id);

  t.deepEqual(
    registrations.map(({ refundReasons }) => refundReasons),
    [["1", "2"], [], Array.from({ length: 150 }, (_, index) => String(index + 1))],
  );
  t.false(hasMore);
});

test("an export has a limited number of reasons, the newest of the newest registrations, and says that there are more", async (t) => {
  const store = await createTestStore(t.context.db);
  await insertRefunds(t.context, store.id, [5, MAXIMUM_CUSTOMER_RECORDS, 5]);

  const { registrations, hasMore } = await exportOf(t.context, store.id);

  const [newest, middle, oldest] = registrations.map(({ refundReasons }) => refundReasons);
  t.deepEqual(newest, ["1", "2", "3", "4", "5"]);
  t.is(middle?.length, MAXIMUM_CUSTOMER_RECORDS - 5);
  t.deepEqual([middle?.[0], middle?.at(-1)], ["6", String(MAXIMUM_CUSTOMER_RECORDS)]);
  t.deepEqual(oldest, []);
  t.true(hasMore);
});
