import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { readTotals } from "../../modules/registrations/totals.sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import { registrationOf } from "../support/factories.ts";
import { lineOf } from "./importLine.ts";
import type { Fields } from "./importLine.ts";
import { linesOf, setUpImport, summaryOf } from "./importScene.ts";

const test = testWithDatabase();

const lines = (...all: readonly (string | Fields)[]): string =>
  linesOf(...all.map((line) => (typeof line === "string" ? line : lineOf(line))));

const registrationRow = z.strictObject({
  id: z.uuid(),
  kind: z.string(),
  mode: z.string(),
  count: z.bigint().transform(Number),
  fractionalCount: z.number(),
  createdAt: z.date(),
  idempotencyKey: z.string().nullable(),
  attribution: z.string(),
  metadata: z.unknown(),
});

const readRegistrations = (db: DatabasePool, accountId: string) =>
  db.any(sql.type(registrationRow)`
    SELECT
      id, kind, mode, count, fractional_count AS "fractionalCount", created_at AS "createdAt",
      idempotency_key AS "idempotencyKey", attribution, metadata
    FROM registration
    WHERE account_id = ${accountId}
    ORDER BY created_at, id
  `);

test("an imported line becomes a registration with all of its fields and no usage", async (t) => {
  const { id, importText } = await setUpImport(t, { fractionalCounting: true });
  const run = await importText(
    lines({
      kind: "bottle",
      count: 12,
      created_at: "2023-12-31T23:30:00.250-02:00",
      fractional_count: 12.5,
      attribution: "newsletter",
      metadata: { order: 7, nested: { a: [1, null] } },
      idempotency_key: "order-7",
    }),
  );
  t.is(run.exitCode, 0, run.stderr);
  t.like(summaryOf(run), { lines: 1, new: 1, known: 0, conflict: 0, bad: 0 });
  const [registration] = await readRegistrations(t.context.db, id);
  t.like(registration, {
    kind: "bottle",
    mode: "live",
    count: 12,
    fractionalCount: 12.5,
    createdAt: new Date("2024-01-01T01:30:00.250Z"),
    idempotencyKey: "order-7",
    attribution: "newsletter",
    metadata: { order: 7, nested: { a: [1, null] } },
  });
  t.like(await readAccountSums(t.context.db, id), { registrations: 1, total: 12n, facts: 0 });
});

test("each line counts in the totals of its mode, kind and month in UTC", async (t) => {
  const { id, importText } = await setUpImport(t);
  const text = lines(
    { count: 3, created_at: "2024-01-31T23:30:00-01:00" },
    { count: 4, created_at: "2024-02-29T23:59:59.999Z" },
    { count: 5, created_at: "2024-03-01T00:00:00Z" },
    { count: 6, kind: "bottle" },
  );
  t.is((await importText(text)).exitCode, 0);
  t.is((await importText(lines({ count: 100 }), "--mode", "test")).exitCode, 0);
  const totalsOf = (mode: "live" | "test", kind: "tree" | "bottle", time: string) =>
    readTotals(t.context.db, { accountId: id, mode, kind }, new Date(time));
  t.deepEqual(await totalsOf("live", "tree", "2024-01-15"), { all: 12, month: 0 });
  t.deepEqual(await totalsOf("live", "tree", "2024-02-15"), { all: 12, month: 7 });
  t.deepEqual(await totalsOf("live", "tree", "2024-03-15"), { all: 12, month: 5 });
  t.deepEqual(await totalsOf("live", "bottle", "2024-05-15"), { all: 6, month: 6 });
  t.deepEqual(await totalsOf("test", "tree", "2024-05-15"), { all: 100, month: 100 });
});

test("importing a file again changes nothing, however its JSON is formatted", async (t) => {
  const { id, importText } = await setUpImport(t);
  const text = lines(
    { id: "1", metadata: { a: 1, b: { c: 2, d: 3 } } },
    { idempotency_key: "k" },
    { id: "2", count: 2 },
  );
  t.like(summaryOf(await importText(text)), { new: 3, known: 0 });
  const first = await readRegistrations(t.context.db, id);
  const rewritten = [
    '{ "metadata": {"b":{"d":3,"c":2},"a":1}, "created_at":"2024-05-01T11:30:00+02:00", "count":1, "kind":"tree", "id":"1" }\r',
    lineOf({ idempotency_key: "k" }),
    lineOf({ id: "2", count: 2, attribution: "", metadata: {} }),
  ].join("\n");
  t.like(summaryOf(await importText(rewritten)), { new: 0, known: 3 });
  t.deepEqual(await readRegistrations(t.context.db, id), first);
  t.like(await readAccountSums(t.context.db, id), { registrations: 3, total: 4n });
});

test("an idempotency key means one registration in a file and the API, for each mode and kind", async (t) => {
  const { db } = t.context;
  const { id, importText } = await setUpImport(t);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  const post = (key: string, count: number) =>
    writer.register(registrationOf(id, { count, idempotencyKey: key }));
  const posted = await post("posted", 8);
  const run = await importText(
    lines(
      { idempotency_key: "imported", count: 2 },
      { idempotency_key: "imported", count: 3 },
      { idempotency_key: "posted", count: 5 },
      { idempotency_key: "imported", kind: "bottle" },
    ),
  );
  t.is(run.exitCode, 1);
  t.like(summaryOf(run), { lines: 4, new: 2, known: 0, conflict: 2, bad: 0 });
  t.regex(
    run.stderr,
    /line 2: conflict: a record with this id or idempotency_key is there with another count$/mu,
  );
  t.regex(run.stderr, /line 3: conflict: .* with another count, created_at$/mu);
  const replay = await post("imported", 50);
  t.true(replay.replayed);
  t.is(replay.registration.count, 2);
  t.deepEqual(replay.registration.createdAt, new Date("2024-05-01T09:30:00Z"));
  t.is((await post("posted", 1)).registration.id, posted.registration.id);
  t.is(replay.totals.all, 10);
});

test("a line that cannot be imported is skipped, and reported by its number", async (t) => {
  const { id, importText } = await setUpImport(t);
  const run = await importText(
    lines({ count: 2 }, "", { count: 1.5 }, "x".repeat(1_100_000), "{", { count: 3 }),
  );
  t.is(run.exitCode, 1);
  t.regex(run.stderr, /^standard input, line 3: count: must be an integer/mu);
  t.regex(run.stderr, /^standard input, line 4: longer than 1048576 characters$/mu);
  t.regex(run.stderr, /^standard input, line 5: not valid JSON$/mu);
  t.like(summaryOf(run), { lines: 5, new: 2, known: 0, conflict: 0, bad: 3 });
  t.like(await readAccountSums(t.context.db, id), { registrations: 2, registered: 5n, total: 5n });
});

test("only the line that would make a total exceed a safe integer is skipped", async (t) => {
  const { id, importText } = await setUpImport(t);
  const many = Array.from({ length: 40 }, (_, index) => lineOf({ count: index + 1 }));
  const run = await importText(
    lines(...many.slice(0, 20), { count: Number.MAX_SAFE_INTEGER }, ...many.slice(20)),
  );
  t.is(run.exitCode, 1);
  t.regex(
    run.stderr,
    /^standard input, line 21: count: would increase the account's total to more than/mu,
  );
  t.like(await readAccountSums(t.context.db, id), { registrations: 40, total: 820n });
});

test("bytes that are not UTF-8 make a line invalid; a byte order mark does not", async (t) => {
  const { importText } = await setUpImport(t);
  const run = await importText(
    Buffer.concat([
      Buffer.from(`\uFEFF${lineOf({ count: 1 })}\n`),
      Buffer.from(lineOf({ attribution: "caf#" }).replace("#", "\u00E9"), "latin1"),
      Buffer.from(`\n${lineOf({ count: 2 })}`),
    ]),
  );
  t.regex(run.stderr, /^standard input, line 2: not well-formed UTF-8 or UTF-16$/mu);
  t.like(summaryOf(run), { new: 2, bad: 1 });
  t.is((await importText("\n\n")).exitCode, 0, "an empty file is no error");
});

test("two concurrent imports of one file import each registration once", async (t) => {
  const { id, importText } = await setUpImport(t);
  const text = lines(
    ...Array.from({ length: 3000 }, (_, index) => ({
      count: (index % 5) + 1,
      kind: index % 2 === 0 ? "tree" : "bottle",
      metadata: { index },
      ...(index % 3 === 0 ? { idempotency_key: `k${index}` } : {}),
    })),
  );
  const runs = await Promise.all([importText(text), importText(text)]);
  t.deepEqual(
    runs.map(({ exitCode }) => exitCode),
    [0, 0],
  );
  const sums = await readAccountSums(t.context.db, id);
  t.is(sums.registrations, 3000);
  t.is(sums.total, sums.registered);
});
