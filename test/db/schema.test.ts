import { readFile, writeFile } from "node:fs/promises";
import type { Client } from "pg";
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
import { PERPETUAL_KINDS } from "../../runtime/perpetualWork.rules.ts";
import { createEmptyDatabase, openClient, testWithDatabase } from "../support/database.ts";

/** Queries of the statements that describe a schema. */
const DESCRIPTIONS = [
  `
    SELECT format('CREATE EXTENSION %I;', extname) AS statement
    FROM pg_extension
    WHERE extname <> 'plpgsql'
    ORDER BY extname
  `,
  `
    SELECT format('CREATE SEQUENCE %I AS %s;', relname, format_type(seqtypid, NULL)) AS statement
    FROM pg_sequence
    JOIN pg_class ON pg_class.oid = seqrelid
    WHERE relnamespace = 'public'::regnamespace
      AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = seqrelid AND deptype = 'i')
    ORDER BY relname
  `,
  // Tables of the schema, as `CREATE TABLE` statements with their columns and constraints.
  `
    SELECT format(
      E'CREATE %sTABLE %I (\\n  %s\\n)%s;',
      CASE relation.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END,
      relation.relname,
      concat_ws(
        E',\\n  ',
        (
          SELECT string_agg(
            format('%I %s', attname, format_type(atttypid, atttypmod))
              || coalesce(
                (
                  SELECT format(' COLLATE %I', collname)
                  FROM pg_collation
                  WHERE pg_collation.oid = attcollation
                    AND attcollation <> (SELECT typcollation FROM pg_type WHERE pg_type.oid = atttypid)
                ),
                ''
              )
              || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END
              || CASE
                WHEN attidentity = 'a' THEN ' GENERATED ALWAYS AS IDENTITY'
                WHEN attgenerated = 's' THEN format(' GENERATED ALWAYS AS (%s) STORED', pg_get_expr(adbin, adrelid))
                WHEN adbin IS NOT NULL THEN ' DEFAULT ' || pg_get_expr(adbin, adrelid)
                ELSE ''
              END,
            E',\\n  ' ORDER BY attnum
          )
          FROM pg_attribute
          LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
          WHERE attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
        ),
        (
          SELECT string_agg(
            format('CONSTRAINT %I %s', conname, pg_get_constraintdef(constraints.oid, true)),
            E',\\n  ' ORDER BY contype DESC, conname
          )
          FROM pg_constraint AS constraints
          WHERE conrelid = relation.oid AND contype <> 'n'
        )
      ),
      coalesce(format(' WITH (%s)', array_to_string(relation.reloptions, ', ')), '')
    ) AS statement
    FROM pg_class AS relation
    WHERE relation.relnamespace = 'public'::regnamespace AND relation.relkind = 'r'
    ORDER BY relation.relname
  `,
  // Columns with more or fewer statistics than others.
  `
    SELECT format('ALTER TABLE %s ALTER %I SET STATISTICS %s;', attrelid::regclass, attname, attstattarget) AS statement
    FROM pg_attribute
    JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = 'public'::regnamespace AND attstattarget >= 0
    ORDER BY attrelid::regclass::text, attname
  `,
  // Statistics of expressions.
  `
    SELECT pg_get_statisticsobjdef(oid) || ';' AS statement
    FROM pg_statistic_ext
    WHERE stxnamespace = 'public'::regnamespace
    ORDER BY stxname
  `,
  // Indexes that belong to no constraint.
  `
    SELECT pg_get_indexdef(indexrelid) || ';' AS statement
    FROM pg_index
    JOIN pg_class ON pg_class.oid = indexrelid
    WHERE relnamespace = 'public'::regnamespace
      AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'))
    ORDER BY indrelid::regclass::text, relname
  `,
  `
    SELECT trim(trailing E'\\n' FROM pg_get_functiondef(pg_proc.oid)) || ';' AS statement
    FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace
      AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')
    ORDER BY proname
  `,
  `
    SELECT pg_get_triggerdef(pg_trigger.oid) || ';' AS statement
    FROM pg_trigger
    WHERE NOT tgisinternal
    ORDER BY tgname
  `,
];

/** Returns the statements that describe the database's schema, sorted, so that two dumps of one schema are equal. */
const dumpSchema = async (client: Client): Promise<string> => {
  const sections: string[] = [];
  for (const query of DESCRIPTIONS) {
    const { rows } = await client.query<{ statement: string }>(query);
    sections.push(rows.map(({ statement }) => statement).join("\n\n"));
  }
  return `${sections.join("\n\n")}\n`;
};

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
  const missing = Object.keys(LISTS).filter((name) => !found.has(name));
  t.deepEqual(missing, []);
});
