import { readFile } from "node:fs/promises";
import type { ExecutionContext } from "ava";
import { escapeIdentifier } from "pg";
import { migrate } from "../../db/migrate.ts";
import { SchemaError } from "../../runtime/errors.rules.ts";
import { runImpact } from "../cli/runImpact.ts";
import { openPool } from "../../db/pools/pool.ts";
import { readResponses, recordStoreWrites } from "../../modules/stores/storeWrites.sql.ts";
import {
  ADMIN_URL,
  createEmptyDatabase,
  openClient,
  testWithDatabase,
  withClient,
} from "../support/database.ts";

const test = testWithDatabase();

/** Returns URLs of an empty database for its owner and for roles that do not exist yet, and drops all after the test. */
const setUp = async (t: ExecutionContext, ...kinds: readonly string[]) => {
  const names = kinds.map((kind) => `test_${kind}_${crypto.randomUUID()}`);
  t.teardown(() =>
    withClient(ADMIN_URL, async (admin) => {
      for (const name of names) {
        await admin.query(`DROP ROLE IF EXISTS ${escapeIdentifier(name)}`);
      }
    }),
  );
  const ownerUrl = await createEmptyDatabase(t);
  const urls = names.map((name) => {
    const url = new URL(ownerUrl);
    url.username = name;
    url.password = "pass/word";
    return url.href;
  });
  return { ownerUrl, urls, names };
};

const insertEntry = `INSERT INTO audit_entry (created_at, action, actor, details) VALUES (now(), 'migrate', 'service', '{}')`;

for (const statement of [
  "ALTER TABLE audit_entry DISABLE TRIGGER ALL",
  "ALTER TABLE registration ADD COLUMN more text",
  "SET session_replication_role = replica",
  "DROP TRIGGER balance_entry_append_only ON balance_entry",
  "CREATE OR REPLACE FUNCTION reject_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'",
  "CREATE TRIGGER skip BEFORE INSERT ON audit_entry FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
  "DROP TABLE refund",
  "CREATE TABLE more (id integer)",
  "CREATE FUNCTION more() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
  "COPY registration TO PROGRAM 'true'",
  "COPY registration TO '/tmp/registrations'",
  "SELECT pg_read_file('/etc/hostname')",
  "SELECT setval('tree_order_id', 1)",
  "CREATE ROLE more SUPERUSER",
]) {
  test(`the programs' role may not: ${statement}`, async (t) => {
    const client = await openClient(t, t.context.databaseUrl);
    await t.throwsAsync(client.query(statement), { code: "42501" });
  });
}

test("every table of the schema has the privileges of the programs' role", async (t) => {
  const client = await openClient(t, t.context.databaseUrl);
  const { rows } = await client.query<{ name: string; privileges: string }>(`
    SELECT
      relname AS name,
      (
        SELECT string_agg(privilege, ' ')
        FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) AS privilege
        WHERE has_table_privilege(pg_class.oid, privilege)
      ) AS privileges
    FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
  `);
  const exceptions = rows.filter(({ privileges }) => privileges !== "SELECT INSERT UPDATE DELETE");
  t.true(rows.length > exceptions.length);
  t.deepEqual(Object.fromEntries(exceptions.map(({ name, privileges }) => [name, privileges])), {
    audit_entry: "SELECT INSERT",
    balance_entry: "SELECT INSERT",
    donation: "SELECT INSERT UPDATE",
    idempotency_key: "SELECT INSERT UPDATE",
    registration: "SELECT INSERT UPDATE",
    schema_migration: "SELECT",
  });
});

test("the documented role of people and reports reads everything but secrets, and changes nothing", async (t) => {
  const { ownerUrl, urls, names } = await setUp(t, "reader");
  const [readerUrl = ""] = urls;
  await migrate(ownerUrl);
  const documented = await readFile(new URL("../../docs/operations.md", import.meta.url), "utf8");
  const [statements = ""] = /^CREATE ROLE impact_reader[^`]*/mu.exec(documented) ?? [];
  const owner = await openClient(t, ownerUrl);
  const named = statements.replaceAll("impact_reader", escapeIdentifier(names[0] ?? ""));
  await owner.query(named.replace("…", "pass/word"));

  const reader = await openClient(t, readerUrl);
  await reader.query("SELECT * FROM audit_entry, account, registration");
  for (const statement of [
    "SELECT hash FROM api_key",
    "SELECT token FROM certificate",
    "SELECT idempotency_secret FROM deployment",
    "SELECT request_hash FROM idempotency_key",
    "SELECT secret FROM webhook_endpoint",
    insertEntry,
    "UPDATE account SET name = ''",
    "DELETE FROM account",
    "CREATE TABLE more ()",
  ]) {
    await t.throwsAsync(reader.query(statement), { code: "42501" }, statement);
  }
  const run = await runImpact(["org", "create", "--name", "New"], {
    env: { DATABASE_URL: readerUrl },
  });
  t.is(run.exitCode, 1);
  t.regex(run.stderr, /permission denied for table account\. Check the role of DATABASE_URL/u);
});

test("the hash of an idempotency key cannot be computed without the deployment's secret", async (t) => {
  const { ownerUrl } = await setUp(t);
  await migrate(ownerUrl);
  const db = await openPool(ownerUrl, 1);
  t.teardown(() => db.end());
  const accountId = crypto.randomUUID();
  const write = {
    accountId,
    mode: "live",
    operation: "plant",
    idempotency: { key: "order-48213", requestHash: "ab".repeat(32) },
    responseBody: "",
    kind: "topup",
    recordId: null,
  } as const;
  const free = { unitPriceCents: 0, amountCents: 0, balanceCents: 0 };
  const createdAt = new Date().toISOString();
  await db.transaction((transaction) =>
    recordStoreWrites(transaction, [{ write, ...free, createdAt }]),
  );
  t.is((await readResponses(db, [write])).size, 1);

  const owner = await openClient(t, ownerUrl);
  const scope = `'${accountId}', 'live', 'plant', 'order-48213'`;
  const isStored = async (guess: string) => {
    const { rows } = await owner.query(
      `SELECT FROM idempotency_key, deployment WHERE key_hash = ${guess}`,
    );
    return rows.length > 0;
  };
  for (const secret of ["''", "sha256('')", "decode(repeat('00', 32), 'hex')"]) {
    t.false(await isStored(`idempotency_key_hash(${secret}, ${scope})`));
  }
  t.false(await isStored(`sha256('order-48213')`));
  t.true(await isStored(`idempotency_key_hash(idempotency_secret, ${scope})`));
});

test("the databases of two deployments have different secrets", async (t) => {
  const secrets = new Set<string>();
  for (const ownerUrl of [await createEmptyDatabase(t), await createEmptyDatabase(t)]) {
    await migrate(ownerUrl);
    const owner = await openClient(t, ownerUrl);
    const { rows } = await owner.query<{ secret: string }>(
      "SELECT encode(idempotency_secret, 'hex') AS secret FROM deployment",
    );
    secrets.add(rows[0]?.secret ?? "");
  }
  t.is(secrets.size, 2);
});

test("the role can use a later table immediately, and migrating again takes away what it should not have", async (t) => {
  const { ownerUrl, urls, names } = await setUp(t, "app");
  const [appUrl = ""] = urls;
  const roles = { appUrl };
  const owner = await openClient(t, ownerUrl);
  await owner.query(`CREATE ROLE ${escapeIdentifier(names[0] ?? "")} LOGIN PASSWORD 'pass/word'`);
  await migrate(ownerUrl, roles);
  await owner.query(`
    CREATE TABLE later (id integer);
    CREATE TRIGGER later_append_only BEFORE UPDATE OR DELETE ON later
      FOR EACH STATEMENT EXECUTE FUNCTION reject_change('rows');
  `);
  const app = await openClient(t, appUrl);
  await app.query("INSERT INTO later VALUES (1)");

  t.deepEqual(await migrate(ownerUrl, roles), { applied: [] });

  await app.query("INSERT INTO later VALUES (2)");
  await t.throwsAsync(app.query("UPDATE later SET id = 3"), { code: "42501" });
});

test("a migration says how an administrator creates a missing role, and grants to existing ones", async (t) => {
  const { ownerUrl: adminUrl, urls, names } = await setUp(t, "owner", "app");
  const [ownerUrl = "", appUrl = ""] = urls;
  const [ownerName = "", appName = ""] = names;
  const admin = await openClient(t, adminUrl);
  await admin.query(`
    CREATE ROLE ${escapeIdentifier(ownerName)} LOGIN PASSWORD 'pass/word';
    ALTER DATABASE ${escapeIdentifier(new URL(adminUrl).pathname.slice(1))} OWNER TO ${escapeIdentifier(ownerName)};
  `);
  const roles = { appUrl };
  await t.throwsAsync(migrate(ownerUrl, roles), {
    instanceOf: SchemaError,
    message: new RegExp(`CREATE ROLE "${appName}" LOGIN PASSWORD '…'`, "u"),
  });

  await admin.query(`CREATE ROLE ${escapeIdentifier(appName)} LOGIN PASSWORD 'pass/word'`);
  await migrate(ownerUrl, roles);

  await (await openClient(t, appUrl)).query(insertEntry);
});

test("a migration as the programs' role says which setting is missing", async (t) => {
  await t.throwsAsync(migrate(t.context.databaseUrl), {
    instanceOf: SchemaError,
    message: /may not change the schema\. Set DATABASE_OWNER_URL/u,
  });
});

test("before the first migration, the programs say to run it, whether or not their role exists", async (t) => {
  const { ownerUrl, urls, names } = await setUp(t, "app");
  const [appUrl = ""] = urls;
  const advice =
    /Check DATABASE_URL\. If this release has not been migrated yet, run: npm run -s impact -- migrate/u;
  const missing = await runImpact(["org", "list"], { env: { DATABASE_URL: appUrl } });
  t.regex(missing.stderr, advice);

  const owner = await openClient(t, ownerUrl);
  await owner.query(`CREATE ROLE ${escapeIdentifier(names[0] ?? "")} LOGIN PASSWORD 'pass/word'`);
  const database = escapeIdentifier(new URL(ownerUrl).pathname.slice(1));
  await owner.query(`REVOKE CONNECT ON DATABASE ${database} FROM PUBLIC`);
  const refused = await runImpact(["org", "list"], { env: { DATABASE_URL: appUrl } });
  t.regex(refused.stderr, /permission denied for database/u);
  t.regex(refused.stderr, advice);
});
