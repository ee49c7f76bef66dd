import type { ExecutionContext } from "ava";
import { createCharityValidator } from "../../../api/endpoints/createCharityValidator.ts";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { donationWorkflowId } from "../../../runtime/temporalNames.rules.ts";
import { batchIn, rejectionIn } from "../../api/batches.ts";
import { createTestStore, startStoreApi } from "../../stores/startStoreApi.ts";
import { readStoreState } from "../../stores/storeState.ts";
import { freshEin } from "../../support/factories.ts";
import { eventually } from "../../support/programs.ts";
import { unreachableTemporal } from "../../support/temporalOnDemand.ts";
import type { WorkflowContext } from "./validationSetup.ts";
import { addEveryOrgCharity, NOTHING_RECORDED, readDonationLedger } from "./donationSetup.ts";
import { startEveryOrgApi, testWithWorkflows } from "./validationSetup.ts";

const BRIEF_MS = 1000;

const test = testWithWorkflows().serial;

/** A charity that only the provider knows. */
const addCharity = (t: ExecutionContext<WorkflowContext>): { slug: string; ein: string } => {
  const ein = freshEin();
  const slug = `charity-${ein}`;
  addEveryOrgCharity(t.context.provider, slug, ein);
  return { slug, ein };
};

const TOO_LATE = { error: "the charity could not be validated in time; nothing was recorded" };

test("a remote provider's charity is validated once, by the workflow donation-<id>", async (t) => {
  const { donate: send, ledger } = await startEveryOrgApi(t);
  const { slug, ein } = addCharity(t);
  const donate = () => send({ amount_cents: 7, ein });
  // Its first call fails, and is repeated.
  t.context.provider.faults.push({ status: 503 });

  const { status, body } = await donate();

  t.is(status, 200);
  t.like(body, { nonprofit_id: slug, charity_name: `The ${slug}`, total_donations: 1 });
  t.deepEqual(await ledger(), { donations: 1, count: 1, cents: 7 });
  const { temporal, getDeployment, provider } = t.context;
  const workflowId = donationWorkflowId(await getDeployment(), String(body["donation_id"]));
  const handle = temporal.workflow.getHandle(workflowId);
  t.like(await handle.result(), { kind: "confirmed", provider: "everyorg" });
  const callsBefore = provider.calls.length;
  t.is((await donate()).body["total_donations"], 2);
  t.is(provider.calls.length, callsBefore);
});

test("a provider that does not respond is a 500 that records nothing, and the retry records once", async (t) => {
  const { donate, ledger } = await startEveryOrgApi(t);
  const { provider } = t.context;
  const body = { ein: addCharity(t).ein, idempotency_key: "order-1" };
  provider.faults.push({ status: 500 }, "cut", "cut", { status: 500 });
  t.teardown(() => provider.faults.splice(0));

  t.like(await donate(body), { status: 500, body: { error: "charity search failed" } });
  t.deepEqual(await ledger(), NOTHING_RECORDED);

  provider.faults.splice(0);
  t.like(await donate(body), { status: 200, replayed: null });
  t.deepEqual(await ledger(), { donations: 1, count: 1, cents: 100 });
});

test("a validation that ends after its deadline records nothing, and the retry uses its result", async (t) => {
  const { temporal, getDeployment, provider, validateCharity } = t.context;
  const waitBriefly = createCharityValidator(temporal, getDeployment, 100);
  const callsBefore = provider.calls.length;
  const validations: Promise<unknown>[] = [];
  const { donate, ledger } = await startEveryOrgApi(t, {
    // The deadline may pass before the workflow is started. So it is started first, and joined at its provider's call.
    validateCharity: async (donationId, lookup) => {
      validations.push(validateCharity(donationId, lookup));
      await eventually(() => provider.calls.length > callsBefore);
      return waitBriefly(donationId, lookup);
    },
  });
  const { ein } = addCharity(t);
  const { promise, resolve: respond } = Promise.withResolvers<void>();
  provider.faults.push({ until: promise }, { until: promise });
  t.teardown(() => provider.faults.splice(0));
  const body = { amount_cents: 1, ein, idempotency_key: "k" };

  const late = await donate(body);
  respond();

  t.is(late.status, 500);
  t.deepEqual(late.body, TOO_LATE);
  await Promise.all(validations);
  t.deepEqual(await ledger(), NOTHING_RECORDED);
  t.like(await donate(body), { status: 200, replayed: null });
  t.deepEqual(await ledger(), { donations: 1, count: 1, cents: 1 });
});

test("a retry that is not validated replays what its first attempt has recorded meanwhile", async (t) => {
  const { validateCharity } = t.context;
  const body = { ein: addCharity(t).ein, idempotency_key: "k" };
  let isFirst = false;
  const { donate, ledger } = await startEveryOrgApi(t, {
    validateCharity: async (donationId, lookup) => {
      if (isFirst) {
        return validateCharity(donationId, lookup);
      }
      isFirst = true;
      t.like(await donate(body), { status: 200 });
      throw new Error("too late");
    },
  });

  t.like(await donate(body), { status: 200, replayed: "true" });
  t.deepEqual(await ledger(), { donations: 1, count: 1, cents: 100 });
});

test("a store's donation goes the same way, and is paid once", async (t) => {
  const { db, charities, getDeployment, validateCharity } = t.context;
  const { slug } = addCharity(t);
  const store = await createTestStore(db, { balanceCents: 1000 });
  await updateAccount(db, store.id, { charityProvider: "everyorg" });
  const healthy = await startStoreApi(t, { db, charities, validateCharity });
  const withoutTemporal = await startStoreApi(t, {
    db,
    charities,
    validateCharity: createCharityValidator(await unreachableTemporal(), getDeployment, BRIEF_MS),
  });
  const donate = (api: typeof healthy, amount: number, charityId = slug) => {
    const headers = { ...store.live, "Idempotency-Key": `${charityId} ${amount}` };
    return api.post("/app/api/charity/donate", headers, { charity_id: charityId, amount });
  };

  t.like(await donate(withoutTemporal, 4), { status: 500, body: { code: "INTERNAL_ERROR" } });
  t.is((await readStoreState(db, store.id)).balance, 1000);
  t.deepEqual(await readDonationLedger(db, store.id), NOTHING_RECORDED);

  const first = await donate(healthy, 4);
  t.is(first.status, 200);
  t.is((await donate(withoutTemporal, 4)).text, first.text, "a replay needs no Temporal");
  t.is((await readStoreState(db, store.id)).balance, 600);
  t.deepEqual(await readDonationLedger(db, store.id), { donations: 1, count: 1, cents: 400 });
  t.is((await donate(withoutTemporal, 1)).status, 200, "neither does a known charity");
  t.is((await readStoreState(db, store.id)).balance, 500);
  const unknown = await donate(healthy, 1, `not-${slug}`);
  t.like(unknown, { status: 400, body: { code: "INVALID_PARAMETER" } });
});

const BATCH = "/charities/donate/batch";
const NEW_CHARITIES = 23;

const donationTo = (ein: string) => ({ amount_cents: 10, ein });

test("a batch validates each new charity once and at most 20, and its repetition gets further", async (t) => {
  const { provider } = t.context;
  const { call, test: key, ledger } = await startEveryOrgApi(t);
  const eins = Array.from({ length: NEW_CHARITIES }, freshEin);
  for (const ein of eins) {
    addEveryOrgCharity(provider, `charity-${ein}`, ein);
  }
  const items = [...eins, ...eins].map((ein, index) =>
    Object.assign(donationTo(ein), { idempotency_key: `gift-${index}` }),
  );
  const send = () => call("POST", BATCH, { key, body: { items } });
  const callsBefore = provider.calls.length;

  const { errors } = rejectionIn(await send());

  const late = errors.map(({ index }) => index);
  t.deepEqual(late, [20, 21, 22, 43, 44, 45]);
  const limit = /at most 20 new charities; try again/u;
  t.true(errors.every(({ status, error }) => status === 503 && limit.test(error)));
  t.deepEqual(await ledger(), NOTHING_RECORDED);
  t.is(provider.calls.length - callsBefore, 20);

  t.is(batchIn(await send()).succeeded, 2 * NEW_CHARITIES);
  t.is(provider.calls.length - callsBefore, NEW_CHARITIES);
  const count = 2 * NEW_CHARITIES;
  t.deepEqual(await ledger(), { donations: count, count, cents: 10 * count });
  t.true(batchIn(await send()).results.every(({ idempotent_replayed: replayed }) => replayed));
  t.is(provider.calls.length - callsBefore, NEW_CHARITIES);
});

test("if the provider fails, items of known charities are recorded and the others have the status 503", async (t) => {
  const { provider } = t.context;
  const { call, test: key, ledger } = await startEveryOrgApi(t);
  const [known, lost, missing] = [freshEin(), freshEin(), freshEin()];
  addEveryOrgCharity(provider, `charity-${known}`, known);
  addEveryOrgCharity(provider, `charity-${lost}`, lost);
  const send = (eins: readonly string[], query = "") =>
    call("POST", `${BATCH}${query}`, { key, body: { items: eins.map(donationTo) } });
  t.is(batchIn(await send([known])).succeeded, 1);
  t.like(rejectionIn(await send([missing])).errors[0], { index: 0, status: 400 });

  provider.faults.push("cut", "cut", "cut", "cut");
  const { results } = batchIn(await send([known, lost, known], "?atomic=false"));
  provider.faults.length = 0;

  const statuses = results.map(({ status }) => status);
  t.deepEqual(statuses, [200, 503, 200]);
  const error = "the charity is not confirmed: its provider could not validate it; try again";
  t.is(results[1]?.body["error"], error);
  t.is(batchIn(await send([lost])).succeeded, 1);
  t.deepEqual(await ledger(), { donations: 4, count: 4, cents: 40 });
});

test("concurrent requests with one key record one donation", async (t) => {
  const { donate, ledger } = await startEveryOrgApi(t);
  const body = { ein: addCharity(t).ein, idempotency_key: "order-1" };
  const responses = await Promise.all(Array.from({ length: 20 }, () => donate(body)));
  t.deepEqual(new Set(responses.map(({ status }) => status)), new Set([200]));
  t.is(responses.filter(({ replayed }) => replayed === "true").length, 19);
  t.deepEqual(await ledger(), { donations: 1, count: 1, cents: 100 });
});
