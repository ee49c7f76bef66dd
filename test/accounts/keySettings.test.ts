import { hash } from "node:crypto";
import { z } from "zod";
import type { DatabasePool } from "slonik";
import { createAuthenticator, noteKeyUses } from "../../modules/accounts/createAuthenticator.ts";
import { listOperations } from "../api/responseChecker.ts";
import { startApiOf, startStandaloneApi } from "../api/startStandaloneApi.ts";
import { readJson, impactOf } from "../cli/runImpact.ts";
import { createTestStore, startStoreApi, startStoreApiOf } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { listApiKeys } from "../../modules/accounts/apiKeys.sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { issueKey, revokeKey } from "../../modules/accounts/manageKeys.ts";
import { systemClock } from "../../runtime/clock.ts";
import type { Clock } from "../../runtime/clock.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { diagnose } from "../cli/diagnose.ts";
import { eventually } from "../support/programs.ts";

const test = testWithDatabase();

const NOW = "2027-01-01T00:00:00.000Z";

const listedKey = z.looseObject({ id: z.string(), name: z.string(), scope: z.string() });

/** Issues keys with the CLI at NOW. */
const keyIssuer =
  (t: DatabaseTest, account: string) =>
  async (...options: readonly string[]) => {
    const issued = await impactOf(t, { clock: createMovableClock(NOW) }).json(
      "key",
      "issue",
      "--org",
      account,
      "--mode",
      "live",
      ...options,
    );
    return z.looseObject({ id: z.string(), key: z.string() }).parse(issued);
  };

test("an expired key is invalid on the standalone interface from its time on, even while it is cached", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const { key } = await keyIssuer(t, id)("--expires", "90d");
  const clock = createMovableClock(NOW);
  // The cache's clock stands still, so a key stays cached for the whole test.
  const authenticator = createAuthenticator({ db, clock, nowMs: () => 1 });
  const { call } = await startStandaloneApi(t, { db, clock, authenticator });
  const list = () => call("GET", "/plant/trees", { key });

  t.is((await list()).status, 200);
  clock.set("2027-03-31T23:59:59.999Z");
  t.is((await list()).status, 200);
  clock.set("2027-04-01T00:00:00.000Z");
  t.like(await list(), { status: 403, body: { error: "invalid API key" } });
  const write = await call("POST", "/plant/trees", { key, body: { count: 1 } });
  t.like(write, { status: 403, body: { error: "invalid API key" } });
});

test("an expired key does not reveal that it was an organization's", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const store = await createTestStore(db);
  const imported = `old_${crypto.randomUUID()}`;
  const clock = createMovableClock(NOW);
  const importKey = impactOf(t, { clock, stdin: imported });
  const options = ["--org", id, "--mode", "live", "--name", "old shop", "--expires", "1d"];
  t.is((await importKey("import", "key", ...options)).exitCode, 0);
  const { get } = await startStoreApi(t, { db, clock });
  const verify = () => get("/app/api/verify", { api_key: imported, shop_name: store.domain });

  t.is((await verify()).body["code"], "WRONG_KEY_TYPE");
  clock.set("2027-01-02T00:00:00.000Z");
  t.is((await verify()).body["code"], "INVALID_KEY");
});

test("a read-only key, beside the key of its mode that writes, is rejected by every POST and DELETE of both interfaces and by no GET", async (t) => {
  const standalone = await startApiOf(t);
  const { url, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const { key } = await keyIssuer(t, standalone.id)("--scope", "read");
  const ofStore = await keyIssuer(t, store.domain)("--scope", "read");
  const error = "this API key is read-only";

  for (const [base, headers, body] of [
    [standalone.url, { Authorization: key }, { error }],
    [url, { api_key: ofStore.key, shop_name: store.domain }, { error, code: "READ_ONLY_KEY" }],
  ] as const) {
    const operations = await listOperations(base);
    t.true(operations.filter(({ method }) => method === "POST").length >= 4);
    for (const { method, path } of operations) {
      const response = await fetch(base + path, {
        method,
        headers: { ...headers, "Content-Type": "application/json" },
        ...(method === "POST" && { body: "{not json" }),
      });
      const text = await response.text();
      if (method === "GET") {
        t.not(response.status, 403, path);
      } else {
        t.is(response.status, 403, path);
        t.deepEqual(JSON.parse(text), body);
      }
    }
  }
  t.is((await standalone.post("/plant/trees", { count: 1 })).status, 200);
  t.is((await post("/app/api/plant", store.live, { trees: 1 })).status, 200);
});

test("key list shows name, scope, expiry, last use and revocation, of an organization and of a store", async (t) => {
  const { db } = t.context;
  const impact = impactOf(t);
  const { id } = await createTestOrganization(db);
  const store = await createTestStore(db);
  for (const account of [id, store.domain]) {
    const settings = "--name reporting --scope read --expires 2027-01-31T12:00:00+02:00".split(" ");
    const issued = await keyIssuer(t, account)(...settings);
    const listed = await impact("key", "list", "--org", account, "--json");
    const keys = z.array(listedKey).parse(readJson(listed));
    t.is(keys.length, 3);
    const shown = keys.find((each) => each.id === issued.id);
    t.deepEqual<unknown, unknown>(shown, {
      hint: issued.key.slice(0, account === id ? 16 : 9),
      sha256: hash("sha256", issued.key),
      id: issued.id,
      name: "reporting",
      mode: "live",
      scope: "read",
      created_at: NOW,
      expires_at: "2027-01-31T10:00:00.000Z",
      last_used_at: null,
      revoked_at: null,
    });
    t.is(keys.filter(({ name, scope }) => name === "initial" && scope === "write").length, 2);
    const table = await impact("key", "list", "--org", account);
    t.regex(table.stdout, /ID +NAME +MODE +SCOPE +HINT +CREATED AT +EXPIRES AT +LAST USED AT/u);
    t.regex(table.stdout, /reporting +live +read/u);
    t.false((listed.stdout + table.stdout).includes(issued.key));
  }
});

test("a key that would have expired already is not issued", async (t) => {
  const { id } = await createTestOrganization(t.context.db);
  const impact = impactOf(t, { clock: createMovableClock(NOW) });
  const expiring = ["--mode", "live", "--expires", "2027-01-01"];
  const run = await impact("key", "issue", "--org", id, ...expiring);

  t.like(run, { exitCode: 2, stdout: "" });
  t.regex(run.stderr, /the expiry must be in the future; 2027-01-01T00:00:00\.000Z is past/u);
});

test("an imported key that has expired is not imported again", async (t) => {
  const { id } = await createTestOrganization(t.context.db);
  const clock = createMovableClock(NOW);
  const impact = impactOf(t, { clock, stdin: `old_${crypto.randomUUID()}` });
  const importKey = ["import", "key", "--org", id, "--mode", "live"];

  await impact.ok(...importKey, "--expires", "1d");
  clock.set("2027-01-02T00:00:00Z");
  t.regex(await impact.fails(2, ...importKey), /the key has expired here/u);
});

test("an expired key does not count as valid when the last one is revoked", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  await keyIssuer(t, id)("--expires", "1d");
  const keys = await listApiKeys(db, id);
  const initial = keys.find(({ name, mode }) => name === "initial" && mode === "live");

  const impact = impactOf(t, { clock: createMovableClock("2027-01-02T00:00:00Z") });
  const run = await impact("key", "revoke", initial?.id ?? "");

  t.regex(run.stderr, /no valid live key left/u);
});

/** Starts what one API process has of authentication. Its cache keeps nothing. */
const startProcess = (db: DatabasePool, clock: Clock) => {
  const noteUse = noteKeyUses({ db, clock }, (error) => {
    throw error;
  });
  let ms = 0;
  return createAuthenticator({ db, clock, noteUse, nowMs: () => (ms += 1_000_000) });
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

test("an expired key is not used", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const clock = createMovableClock("2027-01-01T08:00:00Z");
  const { key } = await issueKey(
    { db, clock, actor: SERVICE },
    { id, type: "organization" },
    "live",
    { name: "till", scope: "write", expiresAt: new Date("2027-01-01T09:00:00Z") },
  );
  const authenticate = startProcess(db, clock);
  clock.set("2027-01-01T09:00:00Z");

  t.is(await authenticate(key), null);
  t.true((await listApiKeys(db, id)).every(({ lastUsedAt }) => lastUsedAt === null));
});

test("doctor warns of keys that expire within two weeks, and of no others", async (t) => {
  const { db } = t.context;
  const deps = { db, clock: systemClock, actor: SERVICE };
  const impact = impactOf(t);
  const findKeys = async () => (await diagnose(impact)).find("API keys");
  const { id } = await createTestOrganization(db, { name: "Forest" });
  const issue = async (days: number): Promise<string> => {
    const expiresAt = new Date(systemClock.now().getTime() + days * DAY_MS);
    const settings = { name: "server", scope: "write", expiresAt } as const;
    return (await issueKey(deps, { id, type: "organization" }, "live", settings)).id;
  };
  await issue(15);
  await revokeKey(deps, await issue(3));
  t.like(await findKeys(), { status: "ok", detail: "none expires within 14 days" });

  await issue(13);
  const sooner = await issue(2);
  const { status, detail = "" } = (await findKeys()) ?? {};
  t.is(status, "warning");
  const start = `2 valid keys expire within 14 days, ${sooner} (live, Forest) on `;
  t.true(detail.startsWith(start), detail);
});

/** The limits of an account's modes. */
const limitsOf = (live: number | null, testing: number | null) => ({
  limits: Object.entries({ live, test: testing }).map(([mode, count]) => ({
    mode,
    count_per_day: count,
  })),
});

test("an operator sets limits for one mode of an account, sees them and removes them", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const impact = impactOf(t);
  const show = ["org", "show", id];
  const limitTest = ["org", "update", id, "--mode", "test", "--count-per-day"];
  await impact.ok(...limitTest, "9007199254740991");
  t.like(await impact.json(...show), limitsOf(null, Number.MAX_SAFE_INTEGER));
  t.regex((await impact.ok(...show)).stdout, /live +-\ntest +9,007,199,254,740,991\n/u);
  await impact.ok(...limitTest, "none");
  t.like(await impact.json(...show), limitsOf(null, null));

  const store = await createTestStore(db);
  await impact.ok("store", "update", store.domain, "--count-per-day", "3");
  t.like(await impact.json("store", "show", store.domain), limitsOf(3, null));
});

test("once a command that sets a limit returns, every process applies it to what the day has already", async (t) => {
  const { db } = t.context;
  const { id, apiKeyProd: key } = await createTestOrganization(db);
  const [one, other] = [await startStandaloneApi(t, { db }), await startStandaloneApi(t, { db })];
  const plant = async ({ call }: typeof one, count: number) =>
    (await call("POST", "/plant/trees", { key, body: { count } })).status;
  t.deepEqual([await plant(one, 30), await plant(other, 40)], [200, 200]);

  await impactOf(t).ok("org", "update", id, "--count-per-day", "100");
  t.deepEqual([await plant(one, 31), await plant(other, 31)], [403, 403]);
  t.deepEqual([await plant(one, 20), await plant(other, 10)], [200, 200]);
  t.deepEqual([await plant(one, 1), await plant(other, 1)], [403, 403]);
});
