import { validate, version } from "uuid";
import { systemClock } from "../../runtime/clock.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { newId } from "../../runtime/newId.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";

const test = testWithDatabase();

const timeOf = (id: string | undefined): number =>
  Number.parseInt((id ?? "").replaceAll("-", "").slice(0, 12), 16);

test("ids are different UUIDs of version 7 that ascend and begin with the time", (t) => {
  const startedAtMs = Date.now();
  const ids = Array.from({ length: 20_000 }, newId);
  t.true(ids.every((id) => validate(id) && version(id) === 7));
  t.is(new Set(ids).size, ids.length);
  t.deepEqual(ids.toSorted(), ids);
  t.true(timeOf(ids[0]) >= startedAtMs);
  t.true(timeOf(ids.at(-1)) <= Date.now());
});

/** @param batches gets the size of each batch that is written */
const createWriter = ({ db }: DatabaseContext, batches: number[] = []) =>
  createRegistrationWriter({ db, clock: systemClock }, (size) => batches.push(size));

const createOrganizations = async ({ db }: DatabaseContext) =>
  [await createTestOrganization(db), await createTestOrganization(db)] as const;

/** Two writers, as in two processes. */
const createWriters = (context: DatabaseContext) =>
  [createWriter(context), createWriter(context)] as const;

test("registrations of one batch get the totals as if each had been written alone, in order", async (t) => {
  const writer = createWriter(t.context);
  const [one, two] = await createOrganizations(t.context);

  const results = await Promise.all([
    writer.register(registrationOf(one.id, { count: 5 })),
    writer.register(registrationOf(two.id, { count: 100 })),
    writer.register(registrationOf(one.id, { count: 7 })),
    writer.register(registrationOf(one.id, { count: 1000, kind: "bottle" })),
    writer.register(registrationOf(one.id, { count: 1 })),
  ]);

  const expected = [5, 100, 12, 1000, 13].map((total) => ({
    totals: { all: total, month: total },
  }));
  t.like(results, expected);
});

test("200 parallel registrations with one key, in two writers, make one record and one usage fact", async (t) => {
  const writers = createWriters(t.context);
  const { id } = await createTestOrganization(t.context.db);

  const results = await Promise.all(
    Array.from({ length: 200 }, (_, index) =>
      writers[index % 2 === 0 ? 0 : 1].register(
        registrationOf(id, { idempotencyKey: "once", count: index + 1 }),
      ),
    ),
  );

  const [first] = results;
  t.true(results.every((result) => result.registration.id === first?.registration.id));
  t.is(results.filter((result) => !result.replayed).length, 1);
  const { registered, ...sums } = await readAccountSums(t.context.db, id);
  t.like(sums, { registrations: 1, facts: 1, usage: registered, total: registered });
});

test("two batches that share keys in opposite orders both succeed", async (t) => {
  const writers = createWriters(t.context);
  const { id } = await createTestOrganization(t.context.db);
  const keys = Array.from({ length: 60 }, (_, index) => `key-${index}`);

  for (let round = 0; round < 5; round += 1) {
    const ordered = keys.map((key) => `${key}-${round}`);
    const results = await Promise.all([
      ...ordered.map((key) => writers[0].register(registrationOf(id, { idempotencyKey: key }))),
      ...ordered
        .toReversed()
        .map((key) => writers[1].register(registrationOf(id, { idempotencyKey: key }))),
    ]);
    t.is(results.filter((result) => result.replayed).length, keys.length);
  }
  t.is((await readAccountSums(t.context.db, id)).registrations, 5 * keys.length);
});

test("refused entries are not in the batches of other owners, and replays are not refused", async (t) => {
  const batches: number[] = [];
  const writer = createWriter(t.context, batches);
  const [suspended, other] = await createOrganizations(t.context);
  const write = (idempotencyKey: string | null, refusal: DomainError | null) =>
    writer.register(registrationOf(suspended.id, { idempotencyKey, refusal }));
  const refusal = new DomainError("subscription_inactive", "suspended");

  // The first one is not recorded yet when it is repeated.
  const first = write("first", null);
  const replay = write("first", refusal);
  const refused = ["new", null].map((key) => write(key, refusal));
  const others = Array.from({ length: 20 }, () => writer.register(registrationOf(other.id)));

  t.deepEqual([(await first).replayed, (await replay).replayed], [false, true]);
  for (const result of await Promise.allSettled(refused)) {
    t.is(result.status === "rejected" && result.reason, refusal);
  }
  await Promise.all(others);
  t.deepEqual(batches, [21]);
  t.is((await readAccountSums(t.context.db, suspended.id)).total, 1n);
});

test("a row that the database rejects fails alone, and the next of its owner do not split the batches of others", async (t) => {
  const batches: number[] = [];
  const writer = createWriter(t.context, batches);
  const [full, other] = await createOrganizations(t.context);
  const all = { count: Number.MAX_SAFE_INTEGER, idempotencyKey: "all" };
  await writer.register(registrationOf(full.id, all));
  /** Registers for others together with refused ones. */
  const registerBeside = async (refused: number): Promise<void> => {
    const before = (await readAccountSums(t.context.db, other.id)).registrations;
    const results = await Promise.allSettled([
      ...Array.from({ length: 10 }, () => writer.register(registrationOf(other.id))),
      ...Array.from({ length: refused }, () => writer.register(registrationOf(full.id))),
      ...Array.from({ length: 10 }, () => writer.register(registrationOf(other.id))),
    ]);
    const totals = results.flatMap((result) =>
      result.status === "fulfilled" ? result.value.totals.all : [],
    );
    t.deepEqual(
      totals,
      Array.from({ length: 20 }, (_, index) => before + index + 1),
    );
    for (const result of results.slice(10, 10 + refused)) {
      t.true(result.status === "rejected" && result.reason instanceof DomainError);
      t.regex(String(result.status === "rejected" && result.reason), /count/u);
    }
  };

  await registerBeside(1);
  batches.length = 0;
  await registerBeside(20);
  const replayed = await writer.register(registrationOf(full.id, { idempotencyKey: "all" }));

  t.is((await readAccountSums(t.context.db, full.id)).total, BigInt(Number.MAX_SAFE_INTEGER));
  t.deepEqual(batches, [20, 1]);
  t.true(replayed.replayed);
});
