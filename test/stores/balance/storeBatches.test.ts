import { Client } from "pg";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import type { StoreResponse } from "../../../modules/stores/storeWrites.rules.ts";
import { createStoreWriter } from "../../../modules/stores/createStoreWriter.ts";
import type { StoreWriter } from "../../../modules/stores/createStoreWriter.ts";
import { testWithDatabase } from "../../support/database.ts";
import { eventually } from "../../support/programs.ts";
import { createTestStore } from "../startStoreApi.ts";
import type { TestStore } from "../startStoreApi.ts";
import { readStoreState } from "../storeState.ts";
import { plantingOf } from "./storeWriteScene.ts";

const test = testWithDatabase();

const createWriter = (db: DatabasePool): StoreWriter =>
  createStoreWriter({ db, clock: systemClock });

/** Plants trees at 50 cents each. */
const plant = (
  writer: StoreWriter,
  { id }: TestStore,
  given: Parameters<typeof plantingOf>[1] = {},
): Promise<StoreResponse> => writer.write(plantingOf(id, given));

/** Returns whether each write was recorded now, replayed or rejected, and why. */
const describeAll = async (writes: readonly Promise<StoreResponse>[]): Promise<readonly string[]> =>
  (await Promise.allSettled(writes)).map((settled) =>
    settled.status === "fulfilled"
      ? settled.value.replayed
        ? "replayed"
        : "recorded"
      : settled.reason instanceof DomainError
        ? settled.reason.code
        : String(settled.reason),
  );

test("of the stores in a batch, only the one that its balance does not cover has writes rejected, in their order", async (t) => {
  const { db } = t.context;
  const writer = createWriter(db);
  const [poor, rich, other] = [
    await createTestStore(db, { balanceCents: 120 }),
    await createTestStore(db, { balanceCents: 10_000 }),
    await createTestStore(db, { balanceCents: 100 }),
  ];

  const results = await describeAll([
    plant(writer, poor),
    plant(writer, rich, { count: 7 }),
    plant(writer, poor, { count: 100 }),
    plant(writer, other, { count: 2 }),
    plant(writer, poor),
    plant(writer, rich),
    plant(writer, poor),
    plant(writer, poor, { mode: "test" }),
  ]);

  t.deepEqual(results, [
    "recorded",
    "recorded",
    "balance_insufficient",
    "recorded",
    "recorded",
    "recorded",
    "balance_insufficient",
    "recorded",
  ]);
  t.like(await readStoreState(db, poor.id), { balance: 20, registrations: 3, brokenLinks: 0 });
  t.like(await readStoreState(db, rich.id), {
    balance: 9600,
    registrations: 2,
    totals: 8,
    entries: 3,
    brokenLinks: 0,
  });
  t.like(await readStoreState(db, other.id), { balance: 0, registrations: 1, brokenLinks: 0 });
});

test("a key that another process commits while a batch is written is replayed, and the other stores are recorded", async (t) => {
  const { db, databaseUrl } = t.context;
  const writer = createWriter(db);
  const [store, other] = [
    await createTestStore(db, { balanceCents: 1000 }),
    await createTestStore(db, { balanceCents: 1000 }),
  ];
  const recordId = crypto.randomUUID();
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  t.teardown(() => client.end());
  await client.query("BEGIN");
  await client.query(
    `INSERT INTO idempotency_key (key_hash, account_id, mode, operation, request_hash, response_body, record_id)
    SELECT idempotency_key_hash((SELECT idempotency_secret FROM deployment), $1, 'live', 'plant', 'a'), $1, 'live', 'plant', decode($2, 'hex'), 'first', $3`,
    [store.id, "ab".repeat(32), recordId],
  );

  const writes = [
    plant(writer, store, { key: "a" }),
    plant(writer, store, { key: "b" }),
    plant(writer, other, { key: "a" }),
  ];
  // The statement has not seen the key, and waits for the transaction that inserts it.
  await eventually(() =>
    db.oneFirst(sql.type(z.strictObject({ waits: z.boolean() }))`
      SELECT EXISTS (
        SELECT
        FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
      ) AS waits
    `),
  );
  await client.query("COMMIT");

  t.deepEqual(await describeAll(writes), ["replayed", "recorded", "recorded"]);
  t.deepEqual(await writes[0], { responseBody: "first", recordId, replayed: true });
  t.like(await readStoreState(db, store.id), {
    balance: 950,
    registrations: 1,
    totals: 1,
    responses: 2,
    brokenLinks: 0,
  });
  t.like(await readStoreState(db, other.id), { balance: 950, registrations: 1 });
});

test("a batch of which the database rejects a repeated write has its other writes recorded once", async (t) => {
  const { db } = t.context;
  const writer = createWriter(db);
  const [full, other] = [
    await createTestStore(db, { treePriceCents: 0 }),
    await createTestStore(db, { balanceCents: 1000 }),
  ];
  await plant(writer, full, { count: Number.MAX_SAFE_INTEGER });

  const results = await describeAll([
    plant(writer, other),
    plant(writer, full, { key: "a" }),
    plant(writer, full, { key: "a" }),
    plant(writer, full, { mode: "test" }),
  ]);

  t.deepEqual(results, ["recorded", "request_invalid", "request_invalid", "recorded"]);
  t.like(await readStoreState(db, other.id), { balance: 950, registrations: 1, brokenLinks: 0 });
});
