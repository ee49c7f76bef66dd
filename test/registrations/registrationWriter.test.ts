import { systemClock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import { createRegistrationWriter } from "../../services/registrations/registrationWriter.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { readBooks } from "../support/books.ts";

const test = testWithDatabase();

const createWriter = ({ db }: DatabaseContext) =>
  createRegistrationWriter({ db, clock: systemClock });

/** Two writers, as in two processes. */
const createWriters = (context: DatabaseContext) =>
  [createWriter(context), createWriter(context)] as const;

test("requests that are written together are answered as if each had been alone, in order", async (t) => {
  const writer = createWriter(t.context);
  const [one, two] = [
    await createTestOrganization(t.context.db),
    await createTestOrganization(t.context.db),
  ];

  const answers = await Promise.all([
    writer.register(registrationOf(one.id, { count: 5 })),
    writer.register(registrationOf(two.id, { count: 100 })),
    writer.register(registrationOf(one.id, { count: 7 })),
    writer.register(registrationOf(one.id, { count: 1000, kind: "bottle" })),
    writer.register(registrationOf(one.id, { count: 1 })),
  ]);

  t.deepEqual(
    answers.map(({ totals }) => totals),
    [5, 100, 12, 1000, 13].map((total) => ({ all: total, month: total })),
  );
});

test("200 parallel registrations with one key, in two processes' writers, make one record and one unit of usage", async (t) => {
  const writers = createWriters(t.context);
  const { id } = await createTestOrganization(t.context.db);

  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, index) =>
      writers[index % 2 === 0 ? 0 : 1].register(
        registrationOf(id, { idempotencyKey: "once", count: index + 1 }),
      ),
    ),
  );

  const [first] = answers;
  t.true(answers.every((answer) => answer.registration.id === first?.registration.id));
  t.is(answers.filter((answer) => !answer.replayed).length, 1);
  const books = await readBooks(t.context.db, id);
  t.is(books.registrations, 1);
  t.is(books.facts, 1);
  t.is(books.registered, books.usage);
  t.is(books.registered, books.total);
});

test("two batches that share keys in opposite orders both succeed", async (t) => {
  const writers = createWriters(t.context);
  const { id } = await createTestOrganization(t.context.db);
  const keys = Array.from({ length: 60 }, (_, index) => `key-${index}`);

  for (let round = 0; round < 5; round += 1) {
    const ordered = keys.map((key) => `${key}-${round}`);
    const answers = await Promise.all([
      ...ordered.map((key) => writers[0].register(registrationOf(id, { idempotencyKey: key }))),
      ...ordered
        .toReversed()
        .map((key) => writers[1].register(registrationOf(id, { idempotencyKey: key }))),
    ]);
    t.is(answers.filter((answer) => answer.replayed).length, keys.length);
  }
  t.is((await readBooks(t.context.db, id)).registrations, 5 * keys.length);
});

test("a row that the database refuses fails alone; the rest of its batch is recorded", async (t) => {
  const writer = createWriter(t.context);
  const [full, other] = [
    await createTestOrganization(t.context.db),
    await createTestOrganization(t.context.db),
  ];
  await writer.register(registrationOf(full.id, { count: Number.MAX_SAFE_INTEGER }));

  const answers = await Promise.allSettled([
    ...Array.from({ length: 10 }, () => writer.register(registrationOf(other.id))),
    writer.register(registrationOf(full.id, { count: 1 })),
    ...Array.from({ length: 10 }, () => writer.register(registrationOf(other.id))),
  ]);

  const refused = answers.filter((answer) => answer.status === "rejected");
  t.is(refused.length, 1);
  t.true(refused[0]?.reason instanceof DomainError);
  t.regex(String(refused[0]?.reason), /count/u);
  t.deepEqual(
    answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value.totals.all] : [])),
    Array.from({ length: 20 }, (_, index) => index + 1),
  );
  t.is((await readBooks(t.context.db, full.id)).total, BigInt(Number.MAX_SAFE_INTEGER));
});

test("whose total is full is written apart for a while and costs the others no batch of theirs", async (t) => {
  const batches: number[] = [];
  const writer = createRegistrationWriter({
    db: t.context.db,
    clock: systemClock,
    observeBatch: (size) => batches.push(size),
  });
  const [full, other] = [
    await createTestOrganization(t.context.db),
    await createTestOrganization(t.context.db),
  ];
  await writer.register(
    registrationOf(full.id, { count: Number.MAX_SAFE_INTEGER, idempotencyKey: "all" }),
  );
  await t.throwsAsync(writer.register(registrationOf(full.id)), { instanceOf: DomainError });
  batches.length = 0;

  const answers = await Promise.allSettled(
    Array.from({ length: 20 }, () => [
      writer.register(registrationOf(other.id)),
      writer.register(registrationOf(full.id)),
    ]).flat(),
  );
  const replayed = await writer.register(registrationOf(full.id, { idempotencyKey: "all" }));

  t.is(answers.filter(({ status }) => status === "rejected").length, 20);
  t.deepEqual(batches, [20, 1]);
  t.true(replayed.replayed);
});

test("a count of more digits than the processor takes makes several facts that add up to it", async (t) => {
  const writer = createWriter(t.context);
  const { id } = await createTestOrganization(t.context.db);

  await writer.register(registrationOf(id, { count: Number.MAX_SAFE_INTEGER }));

  const books = await readBooks(t.context.db, id);
  t.is(books.facts, 10);
  t.is(books.usage, BigInt(Number.MAX_SAFE_INTEGER));
});

test("when more is waiting than fits, a request is refused at once and nothing of it is recorded", async (t) => {
  const writer = createRegistrationWriter({
    db: t.context.db,
    clock: systemClock,
    maximumWaiting: 3,
  });
  const { id } = await createTestOrganization(t.context.db);

  const accepted = [1, 2, 3].map(() => writer.register(registrationOf(id)));
  const error = t.throws(() => writer.register(registrationOf(id)), { instanceOf: DomainError });

  t.is(error?.code, "queue_full");
  await Promise.all(accepted);
  t.is((await readBooks(t.context.db, id)).registrations, 3);
});

test("a replay of another process's record that is still being committed waits for it", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const entry = registrationOf(id, { idempotencyKey: "shared", count: 3 });
  const writers = Array.from({ length: 4 }, () => createWriter(t.context));

  for (let round = 0; round < 20; round += 1) {
    const idempotencyKey = `shared-${round}`;
    const answers = await Promise.all(
      writers.map((writer) => writer.register({ ...entry, idempotencyKey })),
    );
    t.is(new Set(answers.map(({ registration }) => registration.id)).size, 1);
  }
  const books = await readBooks(db, id);
  t.is(books.registrations, 20);
  t.is(books.total, 60n);
});
