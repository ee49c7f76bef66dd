import { PERPETUAL_KINDS } from "../../runtime/perpetualWork.rules.ts";
import { readFile, writeFile } from "node:fs/promises";
import { z } from "zod";
import { migrate } from "../../db/migrate.ts";
import { sql } from "../../db/sql.ts";
import { CHARITY_PROVIDERS, SUBSCRIPTION_POLICIES } from "../../modules/accounts/accounts.rules.ts";
import { KEY_SCOPES } from "../../modules/accounts/apiKeys.rules.ts";
import { ACTORS } from "../../modules/accounts/audit.rules.ts";
import { HIDEABLE_SECTIONS, PICTURE_TYPES } from "../../modules/accounts/profile.rules.ts";
import {
  DOCUMENT_KINDS,
  FAILURES,
  METER_EVENT_STATES,
} from "../../modules/billing/meterEvents.rules.ts";
import { PROCESSORS } from "../../modules/billing/usage.rules.ts";
import { DELIVERY_STATES } from "../../modules/events/decideDelivery.rules.ts";
import { DISABLED_REASONS } from "../../modules/events/events.rules.ts";
import { FOREST_TYPES } from "../../modules/planting/impactFactors.rules.ts";
import { ORDER_STAGES, PLANTING_STAGES } from "../../modules/planting/order.rules.ts";
import { OPERATIONS } from "../../modules/records/idempotencyKeys.rules.ts";
import { ACCOUNT_TYPES, KINDS, MODES } from "../../modules/records/owner.rules.ts";
import { BALANCE_ENTRY_KINDS } from "../../modules/stores/stores.rules.ts";
import { TIMELINE_SHAPES } from "../../runtime/config/partnerKinds.rules.ts";
import { createEmptyDatabase, openClient, testWithDatabase } from "../support/database.ts";
import { dumpSchema } from "./dumpSchema.ts";

const test = testWithDatabase();

const SCHEMA = new URL("../../db/schema.sql", import.meta.url);

test("db/schema.sql is the schema that the migrations make", async (t) => {
  const url = await createEmptyDatabase(t);
  await migrate(url);

  const schema = await dumpSchema(await openClient(t, url));

  if (process.env["WRITE_SCHEMA"] !== undefined) {
    await writeFile(SCHEMA, schema);
  }
  t.is(await readFile(SCHEMA, "utf8"), schema, "Run: npm run schema");
});

const checkRow = z.strictObject({ name: z.string(), definition: z.string() });

/** The lists of names that the code has, by the CHECK of a column with such names. */
const LISTS: Readonly<Record<string, readonly string[]>> = {
  account_charity_provider: CHARITY_PROVIDERS,
  account_subscription_policy: SUBSCRIPTION_POLICIES,
  account_type: ACCOUNT_TYPES,
  api_key_scope: KEY_SCOPES,
  audit_entry_actor: ACTORS,
  balance_entry_kind: BALANCE_ENTRY_KINDS,
  deployment_processor: PROCESSORS,
  donor_processor: PROCESSORS,
  idempotency_key_operation: OPERATIONS,
  meter_event_document_kind: [...DOCUMENT_KINDS, "none"],
  meter_event_failure: FAILURES,
  meter_event_processor: PROCESSORS,
  meter_event_state: METER_EVENT_STATES,
  perpetual_work_kind: PERPETUAL_KINDS,
  planting_fact_stage: PLANTING_STAGES,
  planting_order_stage: ORDER_STAGES,
  planting_order_timeline: TIMELINE_SHAPES,
  planting_site_forest_type: FOREST_TYPES,
  profile_hidden_sections: HIDEABLE_SECTIONS,
  profile_logo_type: PICTURE_TYPES,
  registration_kind: KINDS,
  webhook_delivery_state: DELIVERY_STATES,
  webhook_endpoint_disabled_reason: DISABLED_REASONS,
};

/** Names that only one file of queries uses. */
const NAMES_OF_QUERIES = new Set(["planting_fact_source", "planting_fact_state"]);

test("every CHECK that lists names has those of the code", async (t) => {
  const { db } = t.context;
  // A list of the names of one column, and nothing else.
  const checks = await db.any(sql.type(checkRow)`
    SELECT conname AS name, pg_get_constraintdef(oid) AS definition
    FROM pg_constraint
    WHERE contype = 'c' AND pg_get_constraintdef(oid) ~ '^CHECK \\(\\(\\(?[a-z_]+ (= ANY \\(|<@ )\\(?ARRAY\\['
  `);

  const found = new Map(
    checks
      .filter(({ name }) => !NAMES_OF_QUERIES.has(name))
      .map(({ name, definition }) => [
        name,
        Array.from(definition.matchAll(/'([^']*)'::text/gu), ([, value = ""]) => value).toSorted(),
      ]),
  );
  for (const [name, values] of found) {
    const expected = name.endsWith("_mode") ? MODES : LISTS[name];
    t.deepEqual(values, expected?.toSorted() ?? [], name);
  }
  t.deepEqual(
    Object.keys(LISTS).filter((name) => !found.has(name)),
    [],
  );
});
