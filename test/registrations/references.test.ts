import { ForeignKeyIntegrityConstraintViolationError } from "slonik";
import { z } from "zod";
import { insertAccount } from "../../db/accounts/accounts.ts";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../domain/clock.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { readAccountSums } from "../support/accountSums.ts";

const test = testWithDatabase();

const createWriter = ({ db }: DatabaseContext) =>
  createRegistrationWriter({ db, clock: systemClock });

test("a registration of an account that does not exist is rejected alone and leaves nothing", async (t) => {
  const { db } = t.context;
  const writer = createWriter(t.context);
  const { id } = await createTestOrganization(db);
  const unknown = crypto.randomUUID();

  const [registered, rejected] = await Promise.allSettled([
    writer.register(registrationOf(id, { count: 3 })),
    writer.register(registrationOf(unknown, { count: 5 })),
  ]);

  t.is(registered.status, "fulfilled");
  t.true(
    rejected.status === "rejected" &&
      rejected.reason instanceof ForeignKeyIntegrityConstraintViolationError,
  );
  t.like(await readAccountSums(db, unknown), { registrations: 0, facts: 0, total: 0n });
  t.like(await readAccountSums(db, id), { registrations: 1, facts: 1, total: 3n });
});

test("an account that has registrations cannot be deleted", async (t) => {
  const { db } = t.context;
  const id = crypto.randomUUID();
  await insertAccount(db, {
    id,
    type: "organization",
    name: "Without keys",
    fractionalCounting: false,
    billingDay: 1,
    stripeCustomerId: null,
    stripeSubscriptionId: null,
    createdAt: systemClock.now(),
  });
  await createWriter(t.context).register(registrationOf(id));

  const error = await t.throwsAsync(
    db.query(sql.typeAlias("void")`DELETE FROM account WHERE id = ${id}`),
    { instanceOf: ForeignKeyIntegrityConstraintViolationError },
  );

  t.is(error?.constraint, "impact_total_account_id_fkey");
});

test("a registration that has usage facts cannot be deleted, and one without them can", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const { registration } = await createWriter(t.context).register(registrationOf(accountId));
  const deleteIt = () =>
    db.anyFirst(sql.type(z.strictObject({ id: z.uuid() }))`
      DELETE FROM registration WHERE id = ${registration.id} RETURNING id
    `);

  await t.throwsAsync(deleteIt(), { instanceOf: ForeignKeyIntegrityConstraintViolationError });
  t.is((await readAccountSums(db, accountId)).registrations, 1);

  await db.query(
    sql.typeAlias("void")`DELETE FROM usage_fact WHERE registration_id = ${registration.id}`,
  );
  t.deepEqual(await deleteIt(), [registration.id]);
});
