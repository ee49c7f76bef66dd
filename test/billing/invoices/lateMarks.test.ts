import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import {
  MAXIMUM_LATE,
  replaceInvoicedUsage,
} from "../../../modules/billing/invoices/invoicedUsage.sql.ts";
import type { InvoiceProblem } from "../../../modules/billing/invoices/invoices.rules.ts";
import { closeEvents } from "../../../modules/billing/meterEvents.sql.ts";
import { listOpenUsage } from "../../../modules/billing/meterEventReports.sql.ts";
import { closeUsage } from "../../../modules/billing/reconciliation/repairUsage.ts";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";

const test = testWithDatabase();

const DOCUMENT = { kind: "invoice_item", reference: "ii_1" } as const;

/** Creates an organization with a unit in each of some seconds, delivered and not invoiced. */
const setUp = async (t: ExecutionContext<DatabaseContext>, events: number) => {
  const { db, owner } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const customerId = `cus_${accountId}`;
  await owner.query(sql.typeAlias("void")`
    INSERT INTO meter_event
      (
        account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state, sealed_at, settled_at
      )
    SELECT ${accountId}, 'live', 'tree', second, 1, 1, ${accountId} || second, 'stripe', ${customerId}, 'delivered', now(), now()
    FROM generate_series(1, ${events}) AS second
  `);
  const listLate = () => listOpenUsage(db, ["late"], { accountId });
  return {
    db,
    accountId,
    listLate,
    close: async () =>
      closeUsage({ db, clock: systemClock, actor: SERVICE }, await listLate(), {
        document: DOCUMENT,
      }),
    /** Stores that the usage is on no invoice, or on one (null), as a comparison does. */
    find: (problem: InvoiceProblem | null) =>
      db.transaction((transaction) =>
        replaceInvoicedUsage(transaction, customerId, 0, new Date(), [
          {
            kind: "tree",
            start: 0,
            end: events + 1,
            problem,
            subscriptionId: "sub_1",
            invoiceId: "in_1",
            invoiceNumber: null,
            finalizedAt: null,
            quantity: null,
            delivered: events,
            units: events,
            accountIds: [accountId],
          },
        ]),
      ),
  };
};

test("usage that no invoice has is late until a later one has it", async (t) => {
  const { find, listLate } = await setUp(t, 3);
  await find("paused_keep_as_draft");
  t.is((await listLate()).length, 3);
  await find(null);
  t.deepEqual(await listLate(), []);
});

test("of very much usage that no invoice has, the oldest is late, and the rest when that is closed", async (t) => {
  const { find, listLate, close } = await setUp(t, MAXIMUM_LATE + 2);
  await find("ended");
  const first = await listLate();
  t.is(first.length, MAXIMUM_LATE);
  await find("ended");
  t.deepEqual(await listLate(), first);

  t.is((await close()).units, MAXIMUM_LATE);
  await find("ended");
  t.is((await close()).units, 2);
  await find("ended");
  t.deepEqual(await listLate(), []);
});

test("what a document closes during a comparison is not late again, and keeps its note", async (t) => {
  const { db, find, listLate, accountId } = await setUp(t, 1);
  await find("paused_keep_as_draft");
  const ids = await listLate();
  const by = { document: DOCUMENT, note: "ii_1", now: new Date() };
  await runBehindLocks(
    db,
    (transaction) => closeEvents(transaction, ids, by),
    () => find("voided"),
  );
  t.deepEqual(await listLate(), []);
  t.is(
    await db.oneFirst(sql.type(z.strictObject({ note: z.string() }))`
      SELECT last_error AS note FROM meter_event WHERE account_id = ${accountId}
    `),
    "ii_1",
  );
});

test("a command closes 50,000 events at most, so that its memory is limited", async (t) => {
  const { accountId } = await setUp(t, 50_001);
  await t.context.owner.query(sql.typeAlias("void")`
    UPDATE meter_event SET is_late = true WHERE account_id = ${accountId}
  `);
  const refused = await runImpact(
    ["usage", "close", accountId, "--never-bill", "--reason", "trial"],
    { env: { DATABASE_URL: t.context.databaseUrl } },
  );
  t.is(refused.exitCode, 2);
  t.regex(refused.stderr, /These are 50001 events, and at most 50000 .* with --period/u);
});
