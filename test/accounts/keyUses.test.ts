import type { DatabasePool } from "slonik";
import { listApiKeys } from "../../modules/accounts/apiKeys.sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import type { Clock } from "../../runtime/clock.ts";
import { createAuthenticator } from "../../modules/accounts/createAuthenticator.ts";
import { createKeyUses } from "../../modules/accounts/createKeyUses.ts";
import { issueKey } from "../../modules/accounts/issueKey.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
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
  const nowMs = () => (ms += 1_000_000);
  const accountType = "organization";
  return { authenticate: createAuthenticator({ db, clock, keyUses, accountType, nowMs }), keyUses };
};

const readLastUse = async (db: DatabasePool, accountId: string): Promise<string | undefined> =>
  (await listApiKeys(db, accountId)).find(({ mode }) => mode === "live")?.lastUsedAt?.toISOString();

test("the last use of a key is stored to the hour by several processes, at the latest when they stop", async (t) => {
  const { db } = t.context;
  const { id, apiKeyProd } = await createTestOrganization(db);
  const clock = createMovableClock("2027-01-01T10:20:30Z");
  const processes = [startProcess(db, clock), startProcess(db, clock)];
  const useInAll = () => Promise.all(processes.map(({ authenticate }) => authenticate(apiKeyProd)));
  await useInAll();
  t.is(await readLastUse(db, id), undefined);

  await Promise.all(processes.map(({ keyUses }) => keyUses.store()));
  t.is(await readLastUse(db, id), "2027-01-01T10:00:00.000Z");
  clock.set("2027-01-01T11:59:59Z");
  await useInAll();
  await Promise.all(processes.map(({ keyUses }) => keyUses.stop()));

  t.is(await readLastUse(db, id), "2027-01-01T11:00:00.000Z");
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
  const { authenticate, keyUses } = startProcess(db, clock);
  clock.set("2027-01-01T09:00:00Z");

  t.is(await authenticate(key), null);
  await keyUses.stop();
  t.true((await listApiKeys(db, id)).every(({ lastUsedAt }) => lastUsedAt === null));
});
