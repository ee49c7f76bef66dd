import type { ExecutionContext } from "ava";
import { z } from "zod";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { AccountLimits } from "../../domain/accounts/limits.ts";
import { OutageError } from "../../domain/errors.ts";
import { batchIn } from "../api/batches.ts";
import { startApiOf } from "../api/startStandaloneApi.ts";
import { startStoreApiOf } from "../stores/startStoreApi.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestGuard, createTestOrganization } from "../support/factories.ts";
import { createHoldingGuard } from "./createHoldingGuard.ts";

const test = testWithDatabase();

type Operation = {
  readonly limits: Partial<AccountLimits>;
  readonly mode: "live" | "test";
  readonly path: string;
  /** @param id a registration of the account */
  readonly body: (id: string) => Record<string, unknown>;
};

const setUp = async (
  t: ExecutionContext<DatabaseContext>,
  { limits, mode, path, body }: Operation,
) => {
  const { db } = t.context;
  const held = createHoldingGuard(t, limits);
  const {
    call,
    id: accountId,
    apiKeyProd,
    apiKeyTest,
  } = await startApiOf(t, { guard: held.guard });
  const key = mode === "live" ? apiKeyProd : apiKeyTest;
  const planted = await call("POST", "/plant/trees", { key, body: { count: 2 } });
  const [{ id } = { id: "" }] = z
    .array(z.looseObject({ id: z.string() }))
    .parse(planted.body["tree_details"]);
  const request = () => call("POST", path, { key, body: body(id) });
  return {
    ...held,
    request,
    /** Sends the request, and again while its write is held. */
    requestTwice: async () => {
      const first = await held.sendHeld(request);
      const retry = await held.send(request);
      t.is(held.lookups(), 0, "the retry waits");
      return { first, retry };
    },
    plant: (given: Record<string, unknown>) =>
      call("POST", "/plant/trees", { key, body: { count: 3, ...given } }),
    donate: (given: Record<string, unknown>) =>
      call("POST", "/charities/donate", { key, body: given }),
    readSums: () => readAccountSums(db, accountId),
  };
};

const withKey = { idempotency_key: "order-1" };
const GIFT = { amount_cents: 500, ein: "530196605", ...withKey };

/** Each leaves room for one write beside the first registration of two trees. */
const SINGLE = {
  "a registration at the limit of a day": {
    limits: { countPerDay: 5 },
    mode: "live",
    path: "/plant/trees",
    body: () => ({ count: 3, ...withKey }),
  },
  "a registration at the limit of test data": {
    limits: { testRecords: 2 },
    mode: "test",
    path: "/plant/trees",
    body: () => ({ count: 3, ...withKey }),
  },
  "a refund at the limit of test data": {
    limits: { testRecords: 2 },
    mode: "test",
    path: "/refund/trees",
    body: (id) => ({ id, count: 1, ...withKey }),
  },
  "a donation at the limit of test data": {
    limits: { testRecords: 2 },
    mode: "test",
    path: "/charities/donate",
    body: () => GIFT,
  },
} satisfies Record<string, Operation>;

const BATCHES = {
  "a batch at the limit of a day": {
    limits: { countPerDay: 5 },
    mode: "live",
    path: "/plant/trees/batch",
    body: () => ({
      items: [
        { count: 1, idempotency_key: "order-0" },
        { count: 2, ...withKey },
      ],
    }),
  },
  "a batch at the limit of test data": {
    limits: { testRecords: 2 },
    mode: "test",
    path: "/plant/trees/batch",
    body: () => ({ items: [{ count: 3, ...withKey }] }),
  },
  "a batch of refunds at the limit of test data": {
    limits: { testRecords: 2 },
    mode: "test",
    path: "/refund/trees/batch",
    body: (id) => ({ items: [{ id, count: 1, ...withKey }] }),
  },
  "a batch of donations at the limit of test data": {
    limits: { testRecords: 2 },
    mode: "test",
    path: "/charities/donate/batch",
    body: () => ({ items: [GIFT] }),
  },
} satisfies Record<string, Operation>;

for (const [name, operation] of Object.entries<Operation>(SINGLE)) {
  test(`${name} is recorded once if it is repeated while it is written`, async (t) => {
    const { requestTwice, write } = await setUp(t, operation);
    const { first, retry } = await requestTwice();
    write();
    const [original, replay] = await Promise.all([first.response, retry.response]);

    t.deepEqual([original.status, replay.status], [200, 200]);
    t.deepEqual(replay.body, original.body);
    t.is(original.headers.get("Idempotent-Replayed"), null);
    t.is(replay.headers.get("Idempotent-Replayed"), "true");
  });
}

for (const [name, operation] of Object.entries<Operation>(BATCHES)) {
  test(`${name} is recorded once if it is repeated while it is written`, async (t) => {
    const { requestTwice, write } = await setUp(t, operation);
    const { first, retry } = await requestTwice();
    write();
    const [original, replay] = await Promise.all([first.response, retry.response]);

    t.deepEqual([original.status, replay.status], [200, 200]);
    const resultsIn = (response: typeof replay) => batchIn(response).results;
    t.true(resultsIn(original).every((result) => !result.idempotent_replayed));
    t.true(resultsIn(replay).every((result) => result.idempotent_replayed));
  });
}

for (const [name, operation] of Object.entries<Operation>({ ...SINGLE, ...BATCHES })) {
  test(`${name} is recorded by its retry if it fails`, async (t) => {
    const { requestTwice, fail, request } = await setUp(t, operation);
    const { first, retry } = await requestTwice();
    fail();

    t.is((await first.response).status, 503);
    const accepted = await retry.response;
    t.is(accepted.status, 200);
    t.is(accepted.headers.get("Idempotent-Replayed"), null);
    const again = await request();
    t.is(again.status, 200);
  });
}

test("several retries of a registration that fails record it once", async (t) => {
  const { sendHeld, send, fail, request, readSums } = await setUp(
    t,
    SINGLE["a registration at the limit of a day"],
  );
  const first = await sendHeld(request);
  const retries = [await send(request), await send(request), await send(request)];
  fail();

  t.is((await first.response).status, 503);
  const responses = await Promise.all(retries.map(({ response }) => response));
  t.deepEqual(
    responses.map(({ status, headers }) => [status, headers.get("Idempotent-Replayed")]),
    [
      [200, null],
      [200, "true"],
      [200, "true"],
    ],
  );
  t.is((await readSums()).total, 5n);
});

test("a registration with another key or without one is rejected while the last units are written", async (t) => {
  const { sendHeld, write, request, plant, readSums } = await setUp(
    t,
    SINGLE["a registration at the limit of a day"],
  );
  const first = await sendHeld(request);

  t.is((await plant({ idempotency_key: "order-2" })).status, 403);
  t.is((await plant({})).status, 403);
  write();
  t.is((await first.response).status, 200);
  t.is((await plant({ idempotency_key: "order-2" })).status, 403);
  t.is((await readSums()).total, 5n);
});

test("a single retry of a batch's item that is being written is a replay", async (t) => {
  const { sendHeld, send, lookups, write, request, plant } = await setUp(
    t,
    BATCHES["a batch at the limit of test data"],
  );
  const first = await sendHeld(request);
  const retry = await send(() => plant(withKey));
  t.is(lookups(), 0, "the retry waits");
  write();

  t.is((await first.response).status, 200);
  const replay = await retry.response;
  t.is(replay.status, 200);
  t.is(replay.headers.get("Idempotent-Replayed"), "true");
});

test("a donation's retry that fails returns what the first request records meanwhile", async (t) => {
  const { sendHeld, send, write, request, donate } = await setUp(t, {
    ...SINGLE["a donation at the limit of test data"],
    limits: {},
  });
  const first = await sendHeld(request);
  const retry = await send(() => donate({ ...GIFT, ein: "000000000" }));
  write();
  const [original, replay] = await Promise.all([first.response, retry.response]);

  t.deepEqual([original.status, replay.status], [200, 200]);
  t.is(replay.headers.get("Idempotent-Replayed"), "true");
  t.deepEqual(replay.body, original.body);
});

/** Begins a write, and then one with the same key that fails. */
const failRetry = async (t: ExecutionContext<DatabaseContext>, mode: Mode) => {
  const guard = createTestGuard(t, { db: t.context.db });
  const { id: accountId } = await createTestOrganization(t.context.db);
  const caller = { accountId, mode, limits: null };
  const gate = Promise.withResolvers<null>();
  let original: { replayed: boolean } | null = null;
  const begin = (write: () => Promise<{ replayed: boolean }>) =>
    guard.write(caller, {
      idempotencyKey: "order-1",
      write,
      findOriginal: () => Promise.resolve(original),
    });
  const first = begin(async () => {
    await gate.promise;
    original = { replayed: true };
    return { replayed: false };
  });
  const retry = begin(() => Promise.reject(new OutageError("of the retry")));
  return { gate, first, retry };
};

for (const mode of ["live", "test"] as const) {
  test(`a write in ${mode} mode that fails waits for what the first request records`, async (t) => {
    const { gate, first, retry } = await failRetry(t, mode);
    gate.resolve(null);

    t.deepEqual(await first, { replayed: false });
    t.deepEqual(await retry, { replayed: true });
  });

  test(`a write in ${mode} mode fails with its own error if the first request fails`, async (t) => {
    const { gate, first, retry } = await failRetry(t, mode);
    gate.reject(new OutageError("of the first request"));

    await t.throwsAsync(first, { message: "of the first request" });
    await t.throwsAsync(retry, { message: "of the retry" });
  });
}

test("a store's retry gets the response of the write in flight that reaches the limit", async (t) => {
  const { guard, sendHeld, send, lookups, write } = createHoldingGuard(t, { countPerDay: 5 });
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 10_000 }, guard });
  const headers = { ...store.live, "Idempotency-Key": "order-1" };
  const plant = () => post("/app/api/plant", headers, { trees: 5 });
  const first = await sendHeld(plant);
  const retry = await send(plant);
  t.is(lookups(), 0, "the retry waits");
  write();
  const [original, replay] = await Promise.all([first.response, retry.response]);

  t.deepEqual([original.status, replay.status], [200, 200]);
  t.is(replay.text, original.text);
});
