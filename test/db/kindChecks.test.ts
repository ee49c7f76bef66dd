import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { KINDS } from "../../modules/records/owner.rules.ts";
import { OPERATIONS } from "../../modules/records/idempotencyKeys.rules.ts";
import { BALANCE_ENTRY_KINDS } from "../../modules/stores/stores.rules.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

const checkRow = z.strictObject({ name: z.string(), definition: z.string() });

const NAMES: ReadonlySet<string> = new Set([...KINDS, ...OPERATIONS]);

test("every CHECK that lists kinds or operations has those of the code", async (t) => {
  const { db } = t.context;
  const checks = await db.any(sql.type(checkRow)`
    SELECT conname AS name, pg_get_constraintdef(oid) AS definition
    FROM pg_constraint
    WHERE contype = 'c'
  `);

  const lists = checks
    .map(({ name, definition }) => ({
      name,
      values: Array.from(definition.matchAll(/'([^']*)'::text/gu), ([, value = ""]) => value),
    }))
    .filter(({ values }) => values.some((value) => NAMES.has(value)));

  t.deepEqual(Object.fromEntries(lists.map(({ name, values }) => [name, values.toSorted()])), {
    registration_kind: KINDS.toSorted(),
    balance_entry_kind: BALANCE_ENTRY_KINDS.toSorted(),
    balance_entry_topup: ["topup"],
    idempotency_key_operation: OPERATIONS.toSorted(),
  });
});
