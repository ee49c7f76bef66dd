import { readFile } from "node:fs/promises";
import { Client } from "pg";
import { sql } from "../../db/sql.ts";
import { claimDeliveries } from "../../modules/events/attempts.sql.ts";
import type { AccountMode } from "../../modules/records/owner.rules.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import type { EventType } from "../../modules/events/events.rules.ts";
import { EVENT_TYPES, eventIdOf } from "../../modules/events/events.rules.ts";
import { deleteOldEvents } from "../../modules/events/deleteOldEvents.ts";
import { recordEvent } from "../../modules/events/recordEvent.ts";
import { createWebhookEndpoint } from "../../modules/events/manageWebhookEndpoints.ts";
import { testWithDatabase } from "../support/database.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { readEvents, refunded } from "./readEvents.ts";

const test = testWithDatabase();

const NEVER = new AbortController().signal;

const failed = {
  type: "usage.failed" as const,
  data: { kind: "tree" as const, count: 1, registered_at: "2026-01-01T00:00:00.000Z" },
};

test.serial(
  "events are deleted after 30 days, and a client that may have missed one gets event_gone",
  async (t) => {
    const { db } = t.context;
    const { id: accountId } = await createTestOrganization(db);
    const owner: AccountMode = { accountId, mode: "live" };
    const clock = createMovableClock("2031-01-01T00:00:00.000Z");
    const read = async (startingAfter: string | null, types: readonly EventType[] = EVENT_TYPES) =>
      (await readEvents({ db, clock }, owner, { types, startingAfter })).map(eventIdOf);

    await recordEvent(db, owner, clock.now(), failed);
    await recordEvent(db, owner, clock.now(), refunded("1"));
    await recordEvent(db, owner, clock.now(), refunded("2"));
    const [failure = "", first = "", second = ""] = await read(null);
    clock.set("2031-01-04T00:00:00.000Z");
    await recordEvent(db, owner, clock.now(), refunded("3"));
    clock.set("2031-01-31T00:00:00.000Z");
    t.is((await read(null)).length, 4, "none is older than 30 days");
    t.is(await deleteOldEvents({ db, clock }, NEVER), 0);

    clock.set("2031-02-02T00:00:00.000Z");
    t.is(await deleteOldEvents({ db, clock }, NEVER), 1);
    t.is(await deleteOldEvents({ db, clock }, NEVER), 0);
    const kept = await read(null);
    t.is(kept.length, 1);
    t.deepEqual(await read(second), kept, "a client that has read everything continues");
    t.deepEqual(await read(failure, ["usage.failed"]), []);
    await t.throwsAsync(read(failure), { code: "event_gone", message: /older than 30 days/u });
    await t.throwsAsync(read(first), { code: "event_gone", message: /the event is unknown/u });
  },
);

test.serial("registrations leave the feed after 30 days", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const clock = createMovableClock("2031-01-01T00:00:00.000Z");
  const writer = createRegistrationWriter({ db, clock });
  const register = () => writer.register(registrationOf(accountId, {}));
  const read = async (startingAfter: string | null) =>
    (await readEvents({ db, clock }, { accountId, mode: "live" }, { startingAfter })).map(
      eventIdOf,
    );
  await register();
  clock.set("2031-01-03T00:00:00.000Z");
  await register();
  await register();
  const [first = "", second = "", third = ""] = await read(null);
  clock.set("2031-02-01T00:00:00.000Z");
  t.deepEqual(await read(null), [second, third]);
  t.deepEqual(await read(first), [second, third]);
  clock.set("2031-02-04T00:00:00.000Z");
  t.deepEqual(await read(null), []);
  t.deepEqual(await read(third), []);
  await t.throwsAsync(read(first), { code: "event_gone", message: /older than 30 days/u });
});

/** Returns the statements with which docs/backup.md lets operators renumber events. */
const readRenumbering = async (): Promise<string> => {
  const page = await readFile(new URL("../../docs/backup.md", import.meta.url), "utf8");
  const [, section = ""] = page.split("\n## Events after a restored dump\n");
  return /```sql\n(BEGIN;.*?)```/su.exec(section)?.[1] ?? "";
};

test.serial(
  "records that were copied from a server with higher transactions are an error until they are renumbered",
  async (t) => {
    const { db, owner, ownerUrl } = t.context;
    const { id: accountId } = await createTestOrganization(db);
    const account: AccountMode = { accountId, mode: "live" };
    const clock = { now: () => new Date() };
    const webhookSettings = { allowsHttp: false, allowedNetworks: [] };
    const { endpoint } = await createWebhookEndpoint(
      { db, clock, actor: SERVICE, webhookSettings },
      account,
      { url: "https://shop.example/hook", types: null, description: "" },
    );
    const read = () => readEvents({ db, clock }, account);
    await recordEvent(db, account, clock.now(), refunded("copied"));
    await owner.query(sql.typeAlias("void")`
      UPDATE event SET transaction_id = '9000000000' WHERE account_id = ${accountId}
    `);
    await owner.query(sql.typeAlias("void")`
      UPDATE webhook_delivery SET transaction_id = '9000000000' WHERE endpoint_id = ${endpoint.id}
    `);
    await t.throwsAsync(read(), { message: /come from another PostgreSQL server/u });

    const client = new Client({ connectionString: ownerUrl });
    await client.connect();
    await client.query(await readRenumbering());
    await client.end();

    const [delivery] = await claimDeliveries(
      db,
      [{ endpointId: endpoint.id, places: 1 }],
      clock.now(),
    );
    t.is(delivery?.transactionId, 9_000_000_000n, "its receiver may have it under this id");
    await recordEvent(db, account, clock.now(), refunded("new"));
    const events = await read();
    t.is(events.length, 1);
    t.like(events[0], { data: { registration_id: "new" } });
  },
);
