import { z } from "zod";
import type { ExecutionContext } from "ava";
import { createDonationValidator } from "../../api/standalone/charities/createDonationValidator.ts";
import { updateAccount } from "../../db/accounts.ts";
import { sql } from "../../db/sql.ts";
import { requestDonation } from "../../services/requestDonation.ts";
import type { Call } from "../api/startStandaloneApi.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { createTestOrganization } from "../support/factories.ts";
import type { WorkflowContext } from "./donationSetup.ts";
import { testWithWorkflows } from "./donationSetup.ts";

const test = testWithWorkflows();

const RED_CROSS = { ein: "53-0196605", nonprofit_id: "irs_530196605", name: "American Red Cross" };

type Scene = {
  readonly call: Call;
  readonly accountId: string;
  readonly live: string;
  readonly test: string;
  /** What stands in the database for the organization. */
  readonly books: () => Promise<{
    readonly donations: number;
    readonly waiting: number;
    readonly count: number;
    readonly cents: number;
  }>;
};

const booksRow = z.strictObject({
  donations: z.bigint().transform(Number),
  waiting: z.bigint().transform(Number),
  count: z.bigint().transform(Number),
  cents: z.bigint().transform(Number),
});

const stage = async (
  t: ExecutionContext<WorkflowContext>,
  provider: "catalogue" | "everyorg" = "catalogue",
): Promise<Scene> => {
  const { db, charities, validateDonation } = t.context;
  const { call } = await startStandaloneApi(t, {
    db,
    charities,
    validateDonation,
    takeTurn: () => Promise.resolve(true),
  });
  const { id: accountId, apiKeyProd, apiKeyTest } = await createTestOrganization(db);
  await updateAccount(db, accountId, { charityProvider: provider });
  return {
    call,
    accountId,
    live: apiKeyProd,
    test: apiKeyTest,
    books: () =>
      db.one(sql.type(booksRow)`
        SELECT
          (SELECT count(*) FROM donation WHERE account_id = ${accountId}) AS donations,
          (SELECT count(*) FROM donation_request WHERE account_id = ${accountId}) AS waiting,
          (
            SELECT coalesce(sum(count), 0)::bigint
            FROM donation_total
            WHERE account_id = ${accountId} AND period = 'all'
          ) AS count,
          (
            SELECT coalesce(sum(amount_cents), 0)::bigint
            FROM donation_total
            WHERE account_id = ${accountId} AND period = 'all'
          ) AS cents
      `),
  };
};

const tell = (t: ExecutionContext<WorkflowContext>, slug: string, ein: string): void => {
  const nonprofit = { primarySlug: slug, name: `The ${slug}`, ein, isDisbursable: true };
  t.context.provider.answers.set(`/everyorg/nonprofit/${slug}`, { data: { nonprofit } });
  t.context.provider.answers.set(`/everyorg/nonprofit/${ein}`, { data: { nonprofit } });
};

test.serial("a donation is recorded whole, and the charity fills what was omitted", async (t) => {
  const { call, test: key, books } = await stage(t);

  const { status, body, headers } = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 1050, ein: "530196605", attribution: "a", metadata: { b: 1 } },
  });

  t.is(status, 200);
  t.is(headers.get("Idempotent-Replayed"), null);
  const [details] = z.array(z.looseObject({ id: z.string() })).parse(body["donation_details"]);
  t.like(body, {
    donation_id: details?.id,
    amount_cents: 1050,
    charity_name: RED_CROSS.name,
    ein: RED_CROSS.ein,
    nonprofit_id: RED_CROSS.nonprofit_id,
    total_donations: 1,
  });
  t.like(details, { currency: "USD", attribution: "a", metadata: { b: 1 }, refunded: false });
  t.false("idempotency_key" in (details ?? {}));
  t.deepEqual(await books(), { donations: 1, waiting: 0, count: 1, cents: 1050 });
});

test.serial("a donation runs as the workflow donation-<id>", async (t) => {
  const { call, test: key } = await stage(t);
  const { body } = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 1, nonprofit_id: RED_CROSS.nonprofit_id, charity_name: "As I call it" },
  });

  t.is(body["charity_name"], "As I call it");
  const handle = t.context.temporal.workflow.getHandle(`donation-${String(body["donation_id"])}`);
  t.deepEqual(await handle.result(), { kind: "recorded" });
});

const refuses = test.macro({
  exec: async (t, fields: Record<string, unknown>, message: RegExp) => {
    const { call, test: key, books } = await stage(t);
    const { status, body } = await call("POST", "/charities/donate", { key, body: fields });
    t.is(status, 400);
    t.regex(String(body["error"]), message);
    t.deepEqual(await books(), { donations: 0, waiting: 0, count: 0, cents: 0 });
  },
  title: (given = "") => `${given} is a 400 that records nothing`,
});

const EIN = RED_CROSS.ein;
test.serial("no amount", refuses, { ein: EIN }, /amount_cents: required/u);
test.serial("an amount of 0", refuses, { amount_cents: 0, ein: EIN }, /amount_cents/u);
test.serial("a negative amount", refuses, { amount_cents: -5, ein: EIN }, /amount_cents/u);
test.serial("half a cent", refuses, { amount_cents: 0.5, ein: EIN }, /amount_cents/u);
test.serial("an amount as text", refuses, { amount_cents: "5", ein: EIN }, /amount_cents/u);
test.serial("an amount beyond 2^53", refuses, { amount_cents: 2 ** 53, ein: EIN }, /amount_cents/u);
test.serial("neither id", refuses, { amount_cents: 5 }, /one of ein and nonprofit_id is required/u);
test.serial("both ids empty", refuses, { amount_cents: 5, ein: "", nonprofit_id: "" }, /one of/u);
test.serial("an EIN of eight digits", refuses, { amount_cents: 5, ein: "53-019660" }, /^ein: /u);
test.serial("an unknown EIN", refuses, { amount_cents: 5, ein: "00-0000001" }, /no charity found/u);
test.serial(
  "an unknown nonprofit_id",
  refuses,
  { amount_cents: 5, nonprofit_id: "irs_1" },
  /no charity found/u,
);
test.serial(
  "an EIN that is not the nonprofit's",
  refuses,
  { amount_cents: 5, ein: "52-1693387", nonprofit_id: RED_CROSS.nonprofit_id },
  /do not agree/u,
);
test.serial(
  "an unknown field",
  refuses,
  { amount_cents: 5, ein: EIN, currency: "EUR" },
  /currency/u,
);

test.serial("live donations need the subscription, test ones do not", async (t) => {
  const { call, live, test: testKey, books } = await stage(t);
  const body = { amount_cents: 100, ein: EIN, idempotency_key: "k" };

  const refused = await call("POST", "/charities/donate", { key: live, body });
  t.is(refused.status, 400);
  t.deepEqual(refused.body, { error: "donation subscription not active" });
  t.is((await call("POST", "/charities/donate", { key: testKey, body })).status, 200);
  t.is((await call("POST", "/charities/subscribe", { key: live })).status, 200);

  const taken = await call("POST", "/charities/donate", { key: live, body });
  t.is(taken.status, 200, "the refusal is not stored under the key");
  t.is(taken.headers.get("Idempotent-Replayed"), null);
  t.is(taken.body["total_donations"], 1, "the modes are counted apart");
  t.like(await books(), { donations: 2, waiting: 0 });
});

test.serial("a test subscription opens nothing for live donations", async (t) => {
  const { call, live, test: testKey } = await stage(t);
  const subscribed = await call("POST", "/charities/subscribe", { key: testKey });
  t.is(subscribed.status, 200);
  t.regex(String(subscribed.body["message"]), /in test mode/u);
  const { status } = await call("POST", "/charities/donate", {
    key: live,
    body: { amount_cents: 100, ein: EIN },
  });
  t.is(status, 400);
});

test.serial("a known key returns the original, whatever else the body says", async (t) => {
  const { call, test: key, books } = await stage(t);
  const first = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 100, ein: EIN, idempotency_key: "order-1" },
  });
  const again = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 999, nonprofit_id: "nobody", idempotency_key: "order-1" },
  });

  t.is(again.status, 200);
  t.is(again.headers.get("Idempotent-Replayed"), "true");
  t.deepEqual(again.body, first.body);
  t.deepEqual(await books(), { donations: 1, waiting: 0, count: 1, cents: 100 });
});

test.serial("fifty concurrent requests with one key record one donation", async (t) => {
  const { call, test: key, books } = await stage(t);
  const body = { amount_cents: 100, ein: EIN, idempotency_key: "order-1" };

  const answers = await Promise.all(
    Array.from({ length: 50 }, () => call("POST", "/charities/donate", { key, body })),
  );

  t.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
  t.is(new Set(answers.map((answer) => answer.body["donation_id"])).size, 1);
  t.is(answers.filter(({ headers }) => headers.has("Idempotent-Replayed")).length, 49);
  t.deepEqual(await books(), { donations: 1, waiting: 0, count: 1, cents: 100 });
});

test.serial("concurrent donations of one account are all counted", async (t) => {
  const { call, test: key, books } = await stage(t);

  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, index) =>
      call("POST", "/charities/donate", { key, body: { amount_cents: index + 1, ein: EIN } }),
    ),
  );

  t.true(answers.every(({ status }) => status === 200));
  t.deepEqual(await books(), { donations: 30, waiting: 0, count: 30, cents: 465 });
});

const isAnOutage = test.macro({
  exec: async (t, faults: WorkflowContext["provider"]["faults"]) => {
    const { call, test: key, books } = await stage(t, "everyorg");
    const { provider } = t.context;
    const ein = String(100_000_000 + Math.floor(Math.random() * 100_000_000));
    tell(t, `slug-${ein}`, ein);
    provider.faults.push(...faults);
    t.teardown(() => provider.faults.splice(0));
    const body = { amount_cents: 100, ein, idempotency_key: "order-1" };

    const failed = await call("POST", "/charities/donate", { key, body });
    t.is(failed.status, 500);
    t.deepEqual(failed.body, { error: "charity search failed" });
    t.deepEqual(await books(), { donations: 0, waiting: 0, count: 0, cents: 0 });

    provider.faults.splice(0);
    const retried = await call("POST", "/charities/donate", { key, body });
    t.is(retried.status, 200);
    t.is(retried.headers.get("Idempotent-Replayed"), null);
    t.deepEqual(await books(), { donations: 1, waiting: 0, count: 1, cents: 100 });
  },
  title: (given = "") =>
    `a provider that ${given} is a 500 that records nothing, and the retry records once`,
});

test.serial("answers 500", isAnOutage, [{ status: 500 }, { status: 500 }]);
test.serial("answers 429", isAnOutage, [{ status: 429 }, { status: 429 }]);
test.serial("never answers", isAnOutage, ["hang", "hang"]);
test.serial("cuts the connection", isAnOutage, ["cut", "cut"]);
test.serial("refuses our key", isAnOutage, [{ status: 401 }]);
test.serial("answers half a JSON", isAnOutage, [
  { status: 200, body: '{"data":' },
  { status: 200, body: '{"data":' },
]);
test.serial("answers another shape", isAnOutage, [{ status: 200, body: '{"data":{}}' }]);

test.serial("a provider that fails once is asked again", async (t) => {
  const { call, test: key } = await stage(t, "everyorg");
  tell(t, "once-more", "222222222");
  t.context.provider.faults.push({ status: 503 });

  const { status, body } = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 100, nonprofit_id: "once-more" },
  });

  t.is(status, 200);
  t.like(body, { ein: "22-2222222", charity_name: "The once-more" });
});

test.serial("a check that takes too long is a 500, and is not recorded afterwards", async (t) => {
  const { db, charities } = t.context;
  const { books, test: key } = await stage(t);
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const decided: Promise<unknown>[] = [];
  const { call } = await startStandaloneApi(t, {
    db,
    charities,
    takeTurn: () => Promise.resolve(true),
    validateDonation: (id) => {
      decided.push(held.then(() => t.context.validateDonation(id)));
      return Promise.reject(new Error("No answer in time."));
    },
  });

  const late = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 1, ein: EIN },
  });
  release();

  t.is(late.status, 500);
  t.deepEqual(late.body, {
    error: "the charity could not be validated in time; nothing was recorded",
  });
  t.deepEqual(await Promise.all(decided), [{ kind: "withdrawn" }]);
  t.deepEqual(await books(), { donations: 0, waiting: 0, count: 0, cents: 0 });
});

test.serial("a donation that was recorded although the answer was lost is told", async (t) => {
  const { db, charities } = t.context;
  const { call } = await startStandaloneApi(t, {
    db,
    charities,
    takeTurn: () => Promise.resolve(true),
    validateDonation: async (id) => {
      await t.context.validateDonation(id);
      throw new Error("The answer was lost.");
    },
  });
  const { apiKeyTest: key } = await createTestOrganization(db);

  const { status, body } = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 1, ein: EIN },
  });

  t.is(status, 200);
  t.is(body["total_donations"], 1);
});

test.serial(
  "without Temporal a donation is a 500 within the deadline, and the retry records it",
  async (t) => {
    const { db, charities, temporal } = t.context;
    const { call: callWithout } = await startStandaloneApi(t, {
      db,
      charities,
      takeTurn: () => Promise.resolve(true),
      // Nobody can answer within a millisecond.
      validateDonation: createDonationValidator(temporal, 1),
    });
    const { call, test: key, books } = await stage(t);
    const body = { amount_cents: 7, ein: EIN, idempotency_key: "k" };

    t.is((await callWithout("POST", "/charities/donate", { key, body })).status, 500);
    t.deepEqual(await books(), { donations: 0, waiting: 0, count: 0, cents: 0 });

    t.is((await call("POST", "/charities/donate", { key, body })).status, 200);
    t.deepEqual(await books(), { donations: 1, waiting: 0, count: 1, cents: 7 });
  },
);

test.serial("a request that a dead process left behind is taken up by the retry", async (t) => {
  const { db } = t.context;
  const { call, test: key, accountId, books } = await stage(t);
  const left = await requestDonation(db, {
    accountId,
    mode: "test",
    amountCents: 700,
    ein: "530196605",
    nonprofitId: null,
    charityName: null,
    idempotencyKey: "k",
    attribution: "",
    metadata: {},
  });

  const { status, body, headers } = await call("POST", "/charities/donate", {
    key,
    body: { amount_cents: 9, ein: EIN, idempotency_key: "k" },
  });

  t.is(status, 200);
  t.like(body, { amount_cents: 700, donation_id: left.kind === "waiting" ? left.id : null });
  t.is(headers.get("Idempotent-Replayed"), "true");
  t.deepEqual(await books(), { donations: 1, waiting: 0, count: 1, cents: 700 });
});

test.serial("keys belong to an organization and a mode", async (t) => {
  const { call, test: key } = await stage(t);
  const { apiKeyTest: other } = await createTestOrganization(t.context.db);
  const body = { amount_cents: 100, ein: EIN, idempotency_key: "order-1" };

  const own = await call("POST", "/charities/donate", { key, body });
  const others = await call("POST", "/charities/donate", { key: other, body });

  t.not(own.body["donation_id"], others.body["donation_id"]);
  t.is(others.body["total_donations"], 1);
});
