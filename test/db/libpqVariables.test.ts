import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { z } from "zod";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";

const test = testWithDatabase();

const IMPACT = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
/** Nothing listens there. */
const UNUSED_PORT = "1";

/** Returns the names of the organizations in the database that a command connects to. */
const listOrganizations = async (settings: Readonly<Record<string, string>>) => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [IMPACT, "org", "list", "--json"],
    { env: { ...process.env, ...settings } },
  );
  const organizations = z.array(z.object({ name: z.string() })).parse(JSON.parse(stdout));
  return organizations.map(({ name }) => name);
};

test("PGUSER, PGPASSWORD, PGPORT and PGDATABASE fill in what DATABASE_URL leaves out, and PGHOST does not", async (t) => {
  const { db, databaseUrl } = t.context;
  const name = crypto.randomUUID();
  await createTestOrganization(db, { name });
  const { hostname, port, username, password, pathname } = new URL(databaseUrl);
  const user = { PGUSER: username, PGPASSWORD: password };
  const known = { ...user, PGHOST: "elsewhere.invalid", PGPORT: port };
  const wrong = { PGPORT: UNUSED_PORT, PGUSER: "nobody", PGPASSWORD: "wrong", PGDATABASE: "none" };
  for (const settings of [
    { ...known, DATABASE_URL: `postgres://${hostname}`, PGDATABASE: pathname.slice(1) },
    { ...known, DATABASE_URL: `postgres://${pathname}` },
    { ...known, ...wrong, DATABASE_URL: databaseUrl },
  ]) {
    t.deepEqual(await listOrganizations(settings), [name], settings.DATABASE_URL);
  }
});

test("without DATABASE_URL, these variables name no database", async (t) => {
  const { hostname, port, username, password, pathname } = new URL(t.context.databaseUrl);

  await t.throwsAsync(
    listOrganizations({
      DATABASE_URL: "",
      DATA_DIR: "/nonexistent/impact-data",
      PGHOST: hostname,
      PGPORT: port,
      PGUSER: username,
      PGPASSWORD: password,
      PGDATABASE: pathname.slice(1),
    }),
    { message: /DATABASE_URL/u },
  );
});
