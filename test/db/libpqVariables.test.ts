import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { z } from "zod";
import { systemClock } from "../../runtime/clock.ts";
import { getDeploymentName } from "../../modules/billing/holdUsage.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

const IMPACT = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
/** Nothing listens there. */
const UNUSED_PORT = "1";

const showDeployment = async (
  settings: Readonly<Record<string, string>>,
): Promise<{ readonly temporal_name: string }> => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [IMPACT, "deployment", "show", "--json"],
    { env: { ...process.env, ...settings } },
  );
  return z.object({ temporal_name: z.string() }).parse(JSON.parse(stdout));
};

test("PGUSER, PGPASSWORD, PGPORT and PGDATABASE fill in what DATABASE_URL leaves out, and PGHOST does not", async (t) => {
  const { db, databaseUrl } = t.context;
  const name = await getDeploymentName({ db, clock: systemClock });
  const { hostname, port, username, password, pathname } = new URL(databaseUrl);

  const filledIn = await showDeployment({
    DATABASE_URL: `postgres://${hostname}`,
    PGHOST: "elsewhere.invalid",
    PGPORT: port,
    PGUSER: username,
    PGPASSWORD: password,
    PGDATABASE: pathname.slice(1),
  });
  const withoutHost = await showDeployment({
    DATABASE_URL: `postgres://${pathname}`,
    PGHOST: "elsewhere.invalid",
    PGPORT: port,
    PGUSER: username,
    PGPASSWORD: password,
  });
  const given = await showDeployment({
    DATABASE_URL: databaseUrl,
    PGHOST: "elsewhere.invalid",
    PGPORT: UNUSED_PORT,
    PGUSER: "nobody",
    PGPASSWORD: "wrong",
    PGDATABASE: "nothing",
  });

  t.is(filledIn.temporal_name, name);
  t.is(withoutHost.temporal_name, name);
  t.is(given.temporal_name, name);
});

test("without DATABASE_URL, these variables name no database", async (t) => {
  const { hostname, port, username, password, pathname } = new URL(t.context.databaseUrl);

  await t.throwsAsync(
    showDeployment({
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
