import type { ExecutionContext } from "ava";
import { createDonationValidator } from "../../api/standalone/charities/createDonationValidator.ts";
import { requestDonation } from "../../services/charities/requestDonation.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { createTestOrganization } from "../support/factories.ts";
import type { WorkflowContext } from "./donationSetup.ts";
import { EIN, stageDonations, testWithWorkflows } from "./donationSetup.ts";

const test = testWithWorkflows();

const tell = (t: ExecutionContext<WorkflowContext>, slug: string, ein: string): void => {
  const nonprofit = { primarySlug: slug, name: `The ${slug}`, ein, isDisbursable: true };
  t.context.provider.answers.set(`/everyorg/nonprofit/${slug}`, { data: { nonprofit } });
  t.context.provider.answers.set(`/everyorg/nonprofit/${ein}`, { data: { nonprofit } });
};

const isAnOutage = test.macro({
  exec: async (t, faults: WorkflowContext["provider"]["faults"]) => {
    const { call, test: key, books } = await stageDonations(t, "everyorg");
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
  const { call, test: key } = await stageDonations(t, "everyorg");
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
  const { books, test: key } = await stageDonations(t);
  const { promise: held, resolve: release } = Promise.withResolvers<void>();
  const decided: Promise<unknown>[] = [];
  const { call } = await startStandaloneApi(t, {
    db,
    charities,
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
      // Nobody can answer within a millisecond.
      validateDonation: createDonationValidator(temporal, 1),
    });
    const { call, test: key, books } = await stageDonations(t);
    const body = { amount_cents: 7, ein: EIN, idempotency_key: "k" };

    t.is((await callWithout("POST", "/charities/donate", { key, body })).status, 500);
    t.deepEqual(await books(), { donations: 0, waiting: 0, count: 0, cents: 0 });

    t.is((await call("POST", "/charities/donate", { key, body })).status, 200);
    t.deepEqual(await books(), { donations: 1, waiting: 0, count: 1, cents: 7 });
  },
);

test.serial("a request that a dead process left behind is taken up by the retry", async (t) => {
  const { db } = t.context;
  const { call, test: key, accountId, books } = await stageDonations(t);
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
