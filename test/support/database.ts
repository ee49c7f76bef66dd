import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import type { ExecutionContext, TestFn } from "ava";
import anyTest from "ava";
import { Client, escapeLiteral } from "pg";
import type { DatabasePool } from "slonik";
import { migrate } from "../../db/migrate.ts";
import { openPool } from "../../db/pools/pool.ts";

const readAdminUrl = (): string => {
  const url = process.env["TEST_DATABASE_URL"];
  if (url === undefined) {
    throw new Error("TEST_DATABASE_URL is not set. Run the tests with: npm test");
  }
  return url;
};

export const ADMIN_URL = readAdminUrl();
const MIGRATIONS = new URL("../../db/migrations/", import.meta.url);

/** The role with which tests use their databases, so that they prove its privileges. */
const APP_ROLE = "impact_test_app";

const ownerUrlOf = (database: string): string => {
  const url = new URL(ADMIN_URL);
  url.pathname = database;
  return url.href;
};

export const appUrlOf = (database: string): string => {
  const url = new URL(ownerUrlOf(database));
  // Nobody can guess it on a server of the developer's own.
  url.password = createHash("sha256").update(`${APP_ROLE} ${url.password}`).digest("hex");
  url.username = APP_ROLE;
  return url.href;
};

/** Copies files instead of writing each page through the write-ahead log. Dropping the database is then cheaper, too. */
const STRATEGY = "STRATEGY = FILE_COPY";

/** Returns a name derived from the migrations' content, so that an edit creates a new template. */
const nameTemplate = async (): Promise<string> => {
  const files = (await readdir(MIGRATIONS)).filter((file) => file.endsWith(".sql")).toSorted();
  const texts = await Promise.all(files.map((file) => readFile(new URL(file, MIGRATIONS))));
  const hash = createHash("sha256");
  for (const text of texts) {
    hash.update(text);
  }
  return `test_template_${hash.digest("hex").slice(0, 16)}`;
};

/** Returns the name of the migrated template. Test files start concurrently: one creates it and the others wait. */
const ensureTemplate = async (admin: Client): Promise<string> => {
  const template = await nameTemplate();
  await admin.query("SELECT pg_advisory_lock(hashtext('test_template'))");
  try {
    const found = await admin.query("SELECT FROM pg_database WHERE datname = $1", [template]);
    if (found.rowCount === 0) {
      // Renamed after the migration, so that a killed run leaves no incomplete template.
      const unfinished = `${template}_unfinished`;
      await admin.query(`DROP DATABASE IF EXISTS ${unfinished} WITH (FORCE)`);
      await admin.query(`CREATE DATABASE ${unfinished}`);
      const appUrl = appUrlOf(unfinished);
      const role = await admin.query("SELECT FROM pg_roles WHERE rolname = $1", [APP_ROLE]);
      if (role.rowCount === 0) {
        await admin.query(
          `CREATE ROLE ${APP_ROLE} LOGIN PASSWORD ${escapeLiteral(new URL(appUrl).password)}`,
        );
      }
      await migrate(ownerUrlOf(unfinished), { appUrl });
      await admin.query(`ALTER DATABASE ${unfinished} RENAME TO ${template}`);
    }
  } finally {
    await admin.query("SELECT pg_advisory_unlock(hashtext('test_template'))");
  }
  return template;
};

/** `db` and `databaseUrl` have the role of the programs; `owner` and `ownerUrl` that of migrations. */
export type DatabaseContext = {
  readonly db: DatabasePool;
  readonly databaseUrl: string;
  readonly owner: DatabasePool;
  readonly ownerUrl: string;
};

export type DatabaseTest = ExecutionContext<DatabaseContext>;

type TestPoolOptions = Parameters<typeof openPool>[3] & { readonly statementTimeoutMs?: number };

/** Opens a pool that also gets its connections while the machine does much else. */
const openPatientPool = (
  url: string,
  maximumConnections?: number,
  { statementTimeoutMs, ...options }: TestPoolOptions = {},
): Promise<DatabasePool> =>
  openPool(url, maximumConnections, statementTimeoutMs, { connectTimeoutMs: 120_000, ...options });

/** Opens such a pool until the test ends. */
export const openTestPool = async (
  t: ExecutionContext,
  url: string,
  maximumConnections?: number,
  options?: TestPoolOptions,
): Promise<DatabasePool> => {
  const db = await openPatientPool(url, maximumConnections, options);
  t.teardown(() => db.end());
  return db;
};

export const withClient = async <Result>(
  url: string,
  work: (client: Client) => Promise<Result>,
): Promise<Result> => {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
};

/** Runs one query in a new session. */
export const queryRows = (
  url: string,
  text: string,
): Promise<readonly Readonly<Record<string, unknown>>[]> =>
  withClient(url, async (client) => (await client.query<Record<string, unknown>>(text)).rows);

/** Connects until the test ends. */
export const openClient = async (t: ExecutionContext, url: string): Promise<Client> => {
  const client = new Client({ connectionString: url });
  // Its database may be dropped before.
  client.on("error", () => undefined);
  await client.connect();
  t.teardown(() => client.end());
  return client;
};

/** Creates a database for a test file from the template and drops it after the file's tests. */
export const testWithDatabase = (): TestFn<DatabaseContext> => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- ava types the context only by a cast.
  const test = anyTest as TestFn<DatabaseContext>;
  const database = `test_${crypto.randomUUID().replaceAll("-", "_")}`;
  const admin = new Client({ connectionString: ADMIN_URL });

  test.serial.before(async (t) => {
    await admin.connect();
    const template = await ensureTemplate(admin);
    await admin.query(`CREATE DATABASE ${database} TEMPLATE ${template} ${STRATEGY}`);
    const [databaseUrl, ownerUrl] = [appUrlOf(database), ownerUrlOf(database)];
    t.context = {
      db: await openPatientPool(databaseUrl),
      databaseUrl,
      owner: await openPatientPool(ownerUrl, 2),
      ownerUrl,
    };
  });

  test.after.always(async (t) => {
    await Promise.all([t.context.db.end(), t.context.owner.end()]);
    await admin.query(`DROP DATABASE ${database} WITH (FORCE)`);
    await admin.end();
  });

  return test;
};

/** Returns the URL with the role of migrations for the database of a URL. */
export const asOwner = (databaseUrl: string): string =>
  ownerUrlOf(new URL(databaseUrl).pathname.slice(1));

const createDatabase = async (
  t: ExecutionContext,
  readOptions: (admin: Client) => Promise<string> | string,
): Promise<string> => {
  const database = `test_${crypto.randomUUID().replaceAll("-", "_")}`;
  await withClient(ADMIN_URL, async (admin) =>
    admin.query(`CREATE DATABASE ${database} ${STRATEGY} ${await readOptions(admin)}`),
  );
  t.teardown(() =>
    withClient(ADMIN_URL, (admin) => admin.query(`DROP DATABASE ${database} WITH (FORCE)`)),
  );
  return database;
};

/**
 * Creates an empty database that is dropped after the test, and returns its owner's URL.
 * @param options of CREATE DATABASE
 */
export const createEmptyDatabase = async (t: ExecutionContext, options = ""): Promise<string> =>
  ownerUrlOf(await createDatabase(t, () => options));

/** Creates a database from the template, or a copy of one without connections, and drops it after the test. */
export const copyDatabase = async (t: ExecutionContext, source?: string): Promise<string> =>
  appUrlOf(
    await createDatabase(t, async (admin) => {
      const template =
        source === undefined ? await ensureTemplate(admin) : new URL(source).pathname.slice(1);
      return `TEMPLATE ${template}`;
    }),
  );
