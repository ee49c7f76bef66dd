import type { DatabasePool } from "slonik";
import { systemClock } from "../../../runtime/clock.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import type { StoreResponse } from "../../../modules/stores/storeWrites.rules.ts";
import { createStoreWriter } from "../../../modules/stores/createStoreWriter.ts";
import type { StoreWriter } from "../../../modules/stores/createStoreWriter.ts";
import { testWithDatabase } from "../../support/database.ts";
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
