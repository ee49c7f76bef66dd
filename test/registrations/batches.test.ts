import { KINDS } from "../../modules/records/owner.rules.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createAuthenticator } from "../../modules/accounts/createAuthenticator.ts";
import { updateOrganization } from "../../modules/accounts/manageOrganizations.ts";
import { batchIn, fieldsOf, outcomesOf, rejectedIn, rejectionIn } from "../api/batches.ts";
import { eachKind, idIn, KIND_NAMES, registrationsIn, statusesOf } from "../api/contract.ts";
import { startStandaloneApi, startApiOf } from "../api/startStandaloneApi.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { countCalls } from "../support/countCalls.ts";
import { testWithDatabase } from "../support/database.ts";
import { createMovableClock } from "../support/movableClock.ts";

const test = testWithDatabase();

const forBothKinds = eachKind(test);

/** Trees of a batch, in which some items are wrong. */
const mixedItems = (count: number): readonly object[] =>
  Array.from({ length: count }, (_, index) =>
    index % 100 === 7
      ? { count: -1 }
      : { count: 1 + (index % 3), idempotency_key: `mixed-${index}` },
  );
const WRONG_PLACES = Array.from({ length: 10 }, (_, index) => 100 * index + 7);
const COUNT_MESSAGE = "count: must be an integer of at least 1";

forBothKinds(
  "each item of a batch has the response that its single request would have had",
  async (t, kind) => {
    const { path, total, month, details } = KIND_NAMES[kind];
    const clock = createMovableClock("2026-03-10T09:08:07.006Z");
    const { id: accountId, get, post } = await startApiOf(t, { clock });
    await post(path, { count: 2 });

    const response = await post(`${path}/batch`, {
      items: [
        { count: 3, attribution: "a", metadata: { n: 1 }, idempotency_key: "order-1" },
        { count: 4, attribution: null },
      ],
    });

    t.is(response.status, 200);
    const { succeeded, failed, results } = batchIn(response);
    t.deepEqual([succeeded, failed], [2, 0]);
    t.deepEqual(outcomesOf(results), ["new", "new"]);
    t.deepEqual(fieldsOf(results, total), [5, 9]);
    t.deepEqual(fieldsOf(results, month), [5, 9]);
    t.deepEqual(results[0]?.body[details], [
      {
        id: idIn(results[0]?.body ?? {}, kind),
        count: 3,
        fractional_count: 0,
        created_at: "2026-03-10T09:08:07.006Z",
        idempotency_key: "order-1",
        metadata: { n: 1 },
        attribution: "a",
        refunded: false,
        refunded_count: 0,
      },
    ]);
    const counts = registrationsIn((await get(path)).body, kind).map(({ count }) => count);
    t.deepEqual(counts, [4, 3, 2]);
    t.like(await readAccountSums(t.context.db, accountId), {
      registrations: 3,
      total: 9n,
      usage: 9n,
      facts: 2,
    });
  },
);

test("a batch with wrong items records nothing and names them; with atomic=false it records the others once, however often it is sent", async (t) => {
  const { id: accountId, post } = await startApiOf(t);
  const items = mixedItems(1000);
  const send = async () => batchIn(await post("/plant/trees/batch?atomic=false", { items }));

  const { error, errors } = rejectionIn(await post("/plant/trees/batch", { items }));
  t.true(
    error.startsWith(
      "nothing was recorded, because 10 of 1,000 items are rejected: items.7: count: ",
    ),
  );
  const wrong = WRONG_PLACES.map((index) => ({ index, status: 400, error: COUNT_MESSAGE }));
  t.deepEqual(errors, wrong);
  t.is((await readAccountSums(t.context.db, accountId)).registrations, 0);

  const first = await send();
  const second = await send();

  t.deepEqual([first.succeeded, first.failed], [990, 10]);
  t.deepEqual([second.succeeded, second.failed], [990, 10]);
  const rejected = first.results.flatMap(({ status }, index) => (status === 200 ? [] : [index]));
  t.deepEqual(rejected, WRONG_PLACES);
  t.deepEqual(first.results[7], { status: 400, body: { error: COUNT_MESSAGE } });
  t.true(second.results.every(({ idempotent_replayed: replayed = true }) => replayed));
  const idsOf = ({ results }: typeof first): readonly string[] =>
    results.flatMap(({ status, body }) => (status === 200 ? idIn(body, "tree") : []));
  t.deepEqual(idsOf(first), idsOf(second));
  const units = items.reduce((sum, _, index) => sum + (index % 100 === 7 ? 0 : 1 + (index % 3)), 0);
  t.is(first.results.at(-1)?.body["total_planted_trees"], units);
  t.like(await readAccountSums(t.context.db, accountId), {
    registrations: 990,
    total: BigInt(units),
    usage: BigInt(units),
  });
});

test("a key that is known or that an earlier item has returns the original record, marked as replayed", async (t) => {
  const { post } = await startApiOf(t);
  const known = await post("/plant/trees", { count: 5, idempotency_key: "known" });

  const { results } = batchIn(
    await post("/plant/trees/batch", {
      items: [
        { count: 1, idempotency_key: "new" },
        { count: 9, idempotency_key: "known" },
        { count: 7, idempotency_key: "new" },
        { count: 2 },
      ],
    }),
  );

  t.deepEqual(outcomesOf(results), ["new", "replayed", "replayed", "new"]);
  const counts = results.map(({ body }) => registrationsIn(body, "tree")[0]?.count);
  t.deepEqual(counts, [1, 5, 1, 2]);
  t.deepEqual(fieldsOf(results, "total_planted_trees"), [6, 6, 6, 8]);
  t.is(idIn(results[1]?.body ?? {}, "tree"), idIn(known.body, "tree"));
  t.is(idIn(results[2]?.body ?? {}, "tree"), idIn(results[0]?.body ?? {}, "tree"));
});

test("a repeated batch reads the totals once, however long it is", async (t) => {
  const { db, count } = countCalls(t.context.db);
  const { post } = await startApiOf(t, { db });
  const callsOf = async (length: number): Promise<number> => {
    const items = Array.from({ length }, (_, index) => ({
      count: 1,
      idempotency_key: `${length}-${index}`,
    }));
    await post("/plant/trees/batch", { items });
    const before = count();
    const again = await post("/plant/trees/batch", { items });
    t.true(batchIn(again).results.every(({ idempotent_replayed: replayed }) => replayed));
    return count() - before;
  };

  // The originals are read ten at a time.
  t.is((await callsOf(30)) - (await callsOf(10)), 2);
});

test("a batch of a suspended organization returns only repeated registrations", async (t) => {
  const { db } = t.context;
  const { key, post } = await startApiOf(t);
  await post("/plant/trees", { count: 3, idempotency_key: "before" });
  const find = createAuthenticator({ db });
  const suspended = await startStandaloneApi(t, {
    db,
    authenticator: async (given) => {
      const caller = await find(given);
      const unpaid = { status: "past_due", pausedBy: null, meteredKinds: [...KINDS] };
      return caller && { ...caller, suspendingSubscription: unpaid };
    },
  });

  const send = (query: string, ...items: readonly object[]) =>
    suspended.call("POST", `/plant/trees/batch${query}`, { key, body: { items } });
  const repeated = { count: 3, idempotency_key: "before" };

  const { results } = batchIn(await send("?atomic=false", repeated, { count: 1 }));
  t.deepEqual(statusesOf(results), [200, 403]);
  t.deepEqual(rejectedIn(await send("", repeated, { count: 1 })), { 1: 403 });
  t.deepEqual(rejectedIn(await send("", { count: 1 })), { 0: 403 });
  t.deepEqual(outcomesOf(batchIn(await send("", repeated)).results), ["replayed"]);
});

test("once fractions are not counted any more, items with one return only records of earlier requests", async (t) => {
  const { db } = t.context;
  const { id, key, post } = await startApiOf(t, { organization: { fractionalCounting: true } });
  const repeated = { count: 3, fractional_count: 2.5, idempotency_key: "before" };
  await post("/plant/trees", repeated);
  await updateOrganization({ db, clock: systemClock, actor: SERVICE }, id, {
    fractionalCounting: false,
  });
  const { call } = await startStandaloneApi(t, { db });
  const send = (query: string, ...items: readonly object[]) =>
    call("POST", `/plant/trees/batch${query}`, { key, body: { items } });
  const refused = [
    { count: 1, fractional_count: 0.5, idempotency_key: "new" },
    { count: 1, fractional_count: 0.5 },
  ];

  const rejected = await send("", repeated, ...refused, { count: 1 });
  t.deepEqual(rejectedIn(rejected), { 1: 400, 2: 400 });
  const invalid = await send("", { count: 0 }, { count: 1, fractional_count: 0.5 });
  t.deepEqual(rejectedIn(invalid), { 0: 400, 1: 400 });
  const { results } = batchIn(await send("?atomic=false", repeated, ...refused, { count: 4 }));
  t.deepEqual(outcomesOf(results), ["replayed", 400, 400, "new"]);
  t.regex(String(results[1]?.body["error"]), /^fractional_count: .*not enabled/u);
  t.like(registrationsIn(results[0]?.body ?? {}, "tree")[0], { count: 3, fractional_count: 2.5 });
  t.like(await readAccountSums(db, id), { registrations: 2, total: 7n, usage: 7n });

  const twice = { idempotency_key: "twice" };
  const both = await send("", { count: 5, ...twice }, { ...repeated, ...twice });
  t.deepEqual(outcomesOf(batchIn(both).results), ["new", "replayed"]);
  t.like(await readAccountSums(db, id), { registrations: 3, total: 12n });
});
