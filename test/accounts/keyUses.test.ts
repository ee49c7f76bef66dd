import type { DatabasePool } from "slonik";
import { listApiKeys } from "../../modules/accounts/apiKeys.sql.ts";
import { listAuditEntries } from "../../modules/accounts/auditEntries.sql.ts";
import { sql } from "../../db/sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import type { Clock } from "../../runtime/clock.ts";
import { createAuthenticator } from "../../modules/accounts/createAuthenticator.ts";
import { createKeyUses } from "../../modules/accounts/createKeyUses.ts";
import { issueKey } from "../../modules/accounts/issueKey.ts";
import { recordExpiredKeys } from "../../modules/accounts/recordExpiredKeys.ts";
import { revokeKey } from "../../modules/accounts/revokeKey.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { awaitBlocked } from "../support/lockWaits.ts";
import { createMovableClock } from "../support/movableClock.ts";

const test = testWithDatabase();

/** Starts what one API process has of authentication. Its cache keeps nothing. */
const startProcess = (db: DatabasePool, clock: Clock) => {
  const keyUses = createKeyUses({
    db,
    clock,
    onError: (error) => {
      throw error;
    },
  });
  let ms = 0;
  const nowMs = () => {
    ms += 1_000_000;
    return ms;
  };
  const authenticate = createAuthenticator({
    db,
    clock,
    keyUses,
    accountType: "organization",
    nowMs,
  });
  return { authenticate, ...keyUses };
};

const entriesOf = (db: DatabasePool, accountId: string, action: string) =>
  listAuditEntries(
    db,
    { accountId, action, operator: null, since: null, until: null, before: null },
    100,
  );

const liveKeyOf = async (db: DatabasePool, accountId: string) =>
  (await listApiKeys(db, accountId)).find(({ mode }) => mode === "live");

test("the last use of a key is stored to the hour, and its first use is recorded once by several processes", async (t) => {
  const { db } = t.context;
  const { id, apiKeyProd } = await createTestOrganization(db);
  const clock = createMovableClock("2027-01-01T10:20:30Z");
  const processes = [startProcess(db, clock), startProcess(db, clock)];
  const useInAll = () => Promise.all(processes.map((each) => each.authenticate(apiKeyProd)));
  const storeInAll = () => Promise.all(processes.map((each) => each.storeDue()));
  await useInAll();
  t.is((await liveKeyOf(db, id))?.lastUsedAt, null);

  await storeInAll();
  t.deepEqual((await liveKeyOf(db, id))?.lastUsedAt, new Date("2027-01-01T10:00:00Z"));
  clock.set("2027-01-01T11:59:59Z");
  await useInAll();
  await storeInAll();

  const key = await liveKeyOf(db, id);
  t.deepEqual(key?.lastUsedAt, new Date("2027-01-01T11:00:00Z"));
  const entries = await entriesOf(db, id, "key.first_use");
  t.is(entries.length, 1);
  t.like(entries[0], { actor: "service", subject: key?.id });
});

test("a process stores later uses once an hour, first uses at the next check, and the rest when it stops", async (t) => {
  const { db } = t.context;
  const [one, other, unused] = [
    await createTestOrganization(db),
    await createTestOrganization(db),
    await createTestOrganization(db),
  ];
  const clock = createMovableClock("2027-01-01T08:00:00Z");
  const { authenticate, storeDue, stop } = startProcess(db, clock);
  await authenticate(one.apiKeyProd);
  await authenticate(other.apiKeyProd);
  await storeDue();
  const lastUses = async () =>
    Promise.all(
      [one, other, unused].map(
        async ({ id }) => (await liveKeyOf(db, id))?.lastUsedAt?.getUTCHours() ?? null,
      ),
    );
  t.deepEqual(await lastUses(), [8, 8, null]);

  clock.set("2027-01-01T09:00:00Z");
  await authenticate(one.apiKeyProd);
  await storeDue();
  await authenticate(other.apiKeyProd);
  await storeDue();
  t.deepEqual(await lastUses(), [9, 8, null]);
  await authenticate(unused.apiKeyProd);
  await storeDue();
  t.deepEqual(await lastUses(), [9, 9, 9]);

  clock.set("2027-01-01T10:00:00Z");
  await authenticate(one.apiKeyProd);
  await stop();
  t.deepEqual(await lastUses(), [10, 9, 9]);
});

test("a first use is stored at the next check if another one is being stored", async (t) => {
  const { db } = t.context;
  const one = await createTestOrganization(db);
  const other = await createTestOrganization(db);
  const { authenticate, storeDue } = startProcess(db, createMovableClock("2027-01-01T08:00:00Z"));
  await authenticate(one.apiKeyProd);

  const locked = Promise.withResolvers<void>();
  const isStoring = Promise.withResolvers<void>();
  const noted = Promise.withResolvers<void>();
  const holding = db.transaction(async (transaction) => {
    await transaction.query(sql.typeAlias("void")`
      SELECT FROM api_key WHERE account_id = ${one.id} FOR UPDATE
    `);
    locked.resolve();
    await awaitBlocked(transaction);
    isStoring.resolve();
    await noted.promise;
  });
  await locked.promise;
  const storing = storeDue();
  await isStoring.promise;
  await authenticate(other.apiKeyProd);
  noted.resolve();
  await holding;
  await storing;
  await storeDue();

  t.is((await entriesOf(db, one.id, "key.first_use")).length, 1);
  t.is((await entriesOf(db, other.id, "key.first_use")).length, 1);
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
  const { authenticate, stop } = startProcess(db, clock);
  clock.set("2027-01-01T09:00:00Z");

  t.is(await authenticate(key), null);
  await stop();
  t.true((await listApiKeys(db, id)).every(({ lastUsedAt }) => lastUsedAt === null));
});

// Alone, because it records the expired keys of other tests, too.
test.serial("each expiry is recorded once, except of keys that were revoked before", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const clock = createMovableClock("2027-01-01T08:00:00Z");
  const deps = { db, clock, actor: SERVICE };
  const issue = (time: string) =>
    issueKey(deps, { id, type: "organization" }, "live", {
      name: "till",
      scope: "write",
      expiresAt: new Date(time),
    });
  const expiring = await issue("2027-01-02T00:00:00Z");
  const revoked = await issue("2027-01-02T00:00:00Z");
  await issue("2027-01-03T00:00:00Z");
  await revokeKey(deps, revoked.id);
  const { signal } = new AbortController();
  clock.set("2027-01-02T03:00:00Z");

  t.is(await recordExpiredKeys(deps, signal), 1);
  t.is(await recordExpiredKeys(deps, signal), 0);

  const entries = await entriesOf(db, id, "key.expire");
  t.is(entries.length, 1);
  t.like(entries[0], {
    actor: "service",
    subject: expiring.id,
    details: { expires_at: "2027-01-02T00:00:00.000Z" },
  });
});
