import { hash } from "node:crypto";
import { z } from "zod";
import type { DatabasePool } from "slonik";
import { createAuthenticator } from "../../modules/accounts/createAuthenticator.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { readJson, impactOf, runImpact } from "../cli/runImpact.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { listApiKeys } from "../../modules/accounts/apiKeys.sql.ts";
import type { Clock } from "../../runtime/clock.ts";
import { noteKeyUses } from "../../modules/accounts/noteKeyUses.ts";
import { eventually } from "../support/programs.ts";

const test = testWithDatabase();

const document = z.looseObject({
  paths: z.record(z.string(), z.record(z.string(), z.looseObject({}))),
});

/** Returns the method and the path of each operation of an interface's API description. */
const readOperations = async (url: string): Promise<readonly (readonly [string, string])[]> => {
  const response = await fetch(`${url}/openapi.json`);
  const { paths } = document.parse(await response.json());
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => [method.toUpperCase(), path] as const),
  );
};

const NOW = "2027-01-01T00:00:00.000Z";

/** Issues keys with the CLI at NOW. */
const keyIssuer =
  (databaseUrl: string, account: readonly string[]) =>
  async (...options: readonly string[]): Promise<{ readonly id: string; readonly key: string }> => {
    const run = await runImpact(
      ["key", "issue", ...account, "--mode", "live", "--json", ...options],
      { env: { DATABASE_URL: databaseUrl }, clock: createMovableClock(NOW) },
    );
    return z.looseObject({ id: z.string(), key: z.string() }).parse(readJson(run));
  };

test("a read-only key is rejected by every POST and DELETE of the standalone interface and by no GET", async (t) => {
  const { db, databaseUrl } = t.context;
  const { id, apiKeyProd } = await createTestOrganization(db);
  const { key } = await keyIssuer(databaseUrl, ["--org", id])("--scope", "read");
  const { url, call } = await startStandaloneApi(t, { db });
  const operations = await readOperations(url);
  t.true(operations.filter(([method]) => method === "POST").length >= 7);

  for (const [method, path] of operations) {
    const body = method === "POST" ? { body: "{not json" } : {};
    const response = await call(method, path.replaceAll(/\{\w+\}/gu, crypto.randomUUID()), {
      key,
      ...body,
    });
    if (method !== "GET") {
      t.is(response.status, 403, path);
      t.deepEqual(response.body, { error: "this API key is read-only" });
    } else {
      t.not(response.status, 403, path);
    }
  }
  const planted = await call("POST", "/plant/trees", { key: apiKeyProd, body: { count: 1 } });
  t.is(planted.status, 200);
});

test("a read-only key is rejected by every POST of the store interface and by no GET", async (t) => {
  const { db, databaseUrl } = t.context;
  const store = await createTestStore(db, { balanceCents: 1000 });
  const { key } = await keyIssuer(databaseUrl, ["--org", store.domain])("--scope", "read");
  const { url, get, post } = await startStoreApi(t, { db });
  const headers = { api_key: key, shop_name: store.domain };
  const operations = await readOperations(url);
  t.true(operations.filter(([method]) => method === "POST").length >= 4);

  for (const [method, path] of operations) {
    if (method === "POST") {
      const rejected = await post(path, headers, "{not json");
      t.is(rejected.status, 403, path);
      t.deepEqual(rejected.body, { error: "this API key is read-only", code: "READ_ONLY_KEY" });
    } else {
      t.not((await get(path, headers)).status, 403, path);
    }
  }
  t.is((await post("/app/api/plant", store.live, { trees: 1 })).status, 200);
});

test("key list shows name, scope, last use and revocation, of an organization and of a store", async (t) => {
  const { db, databaseUrl } = t.context;
  const impact = impactOf(t);
  const { id } = await createTestOrganization(db);
  const store = await createTestStore(db);
  for (const account of [
    ["--org", id],
    ["--org", store.domain],
  ]) {
    const issued = await keyIssuer(databaseUrl, account)("--name", "reporting", "--scope", "read");
    const listed = await impact("key", "list", ...account, "--json");
    const keys = z
      .array(z.looseObject({ id: z.string(), name: z.string(), scope: z.string() }))
      .parse(readJson(listed));
    t.is(keys.length, 3);
    t.deepEqual<unknown, unknown>(
      keys.find((each) => each.id === issued.id),
      {
        hint: issued.key.slice(0, account.includes(id) ? 16 : 9),
        sha256: hash("sha256", issued.key),
        id: issued.id,
        name: "reporting",
        mode: "live",
        scope: "read",
        created_at: NOW,
        last_used_at: null,
        revoked_at: null,
      },
    );
    t.is(keys.filter(({ name, scope }) => name === "initial" && scope === "write").length, 2);
    const table = await impact("key", "list", ...account);
    t.regex(table.stdout, /ID +NAME +MODE +SCOPE +HINT +CREATED AT +LAST USED AT/u);
    t.regex(table.stdout, /reporting +live +read/u);
    t.false((listed.stdout + table.stdout).includes(issued.key));
  }
});

/** Starts what one API process has of authentication. Its cache keeps nothing. */
const startProcess = (db: DatabasePool, clock: Clock) => {
  const noteUse = noteKeyUses({
    db,
    clock,
    onError: (error) => {
      throw error;
    },
  });
  let ms = 0;
  const nowMs = () => (ms += 1_000_000);
  return createAuthenticator({ db, noteUse, accountType: "organization", nowMs });
};

const readLastUse = async (db: DatabasePool, accountId: string): Promise<string | undefined> =>
  (await listApiKeys(db, accountId)).find(({ mode }) => mode === "live")?.lastUsedAt?.toISOString();

test("the last use of a key is stored to the hour by several processes", async (t) => {
  const { db } = t.context;
  const { id, apiKeyProd } = await createTestOrganization(db);
  const clock = createMovableClock("2027-01-01T10:20:30Z");
  const processes = [startProcess(db, clock), startProcess(db, clock)];
  for (const hour of ["2027-01-01T10", "2027-01-01T11"]) {
    clock.set(`${hour}:59:59Z`);
    await Promise.all(processes.map((authenticate) => authenticate(apiKeyProd)));
    await eventually(async () => (await readLastUse(db, id)) === `${hour}:00:00.000Z`);
  }
  t.pass();
});

const UNSET = { count_per_day: null };

test("an operator sets limits for one mode of an account, sees them and removes them", async (t) => {
  const { db } = t.context;
  const impact = impactOf(t);
  const { id } = await createTestOrganization(db);
  const run = async (...args: readonly string[]) => {
    const result = await impact(...args);
    t.is(result.exitCode, 0, result.stderr);
    return result;
  };
  const limitsShown = async () => readJson(await run("org", "show", id, "--json"));

  await run(
    ..."org update".split(" "),
    id,
    "--mode",
    "test",
    "--count-per-day",
    "9007199254740991",
  );
  t.like(await limitsShown(), {
    limits: [
      { mode: "live", ...UNSET },
      { mode: "test", count_per_day: Number.MAX_SAFE_INTEGER },
    ],
  });
  t.regex((await run("org", "show", id)).stdout, /live +-\ntest +9,007,199,254,740,991\n/u);
  await run(..."org update".split(" "), id, "--mode", "test", "--count-per-day", "none");
  t.like(await limitsShown(), {
    limits: [
      { mode: "live", ...UNSET },
      { mode: "test", ...UNSET },
    ],
  });

  const store = await createTestStore(db);
  await run(..."store update".split(" "), store.domain, "--count-per-day", "3");
  t.like(readJson(await run("store", "show", store.domain, "--json")), {
    limits: [
      { mode: "live", count_per_day: 3 },
      { mode: "test", ...UNSET },
    ],
  });
});

test("once a command that sets a limit returns, every process applies it to what the day has already", async (t) => {
  const { db } = t.context;
  const impact = impactOf(t);
  const { id, apiKeyProd: key } = await createTestOrganization(db);
  const [one, other] = [await startStandaloneApi(t, { db }), await startStandaloneApi(t, { db })];
  const plant = async ({ call }: typeof one, count: number) =>
    (await call("POST", "/plant/trees", { key, body: { count } })).status;
  t.deepEqual([await plant(one, 30), await plant(other, 40)], [200, 200]);

  const { exitCode } = await impact("org", "update", id, "--count-per-day", "100");

  t.is(exitCode, 0);
  t.deepEqual([await plant(one, 31), await plant(other, 31)], [403, 403]);
  t.deepEqual([await plant(one, 20), await plant(other, 10)], [200, 200]);
  t.deepEqual([await plant(one, 1), await plant(other, 1)], [403, 403]);
});

for (const value of ["0", "-1", "1.5", "many", "1e3", "9007199254740992"]) {
  test(`a limit of ${value} is refused`, async (t) => {
    const { id } = await createTestOrganization(t.context.db);
    const run = await runImpact(["org", "update", id, `--count-per-day=${value}`], {
      env: { DATABASE_URL: t.context.databaseUrl },
    });
    t.is(run.exitCode, 2);
    t.regex(run.stderr, /Must be a number from 1 to 9007199254740991, or none\./u);
  });
}
