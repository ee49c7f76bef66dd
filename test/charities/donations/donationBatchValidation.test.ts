import { freshEin } from "../../support/factories.ts";
import { batchIn, rejectionIn } from "../../api/batches.ts";
import { addEveryOrgCharity, NOTHING_RECORDED } from "./donationSetup.ts";
import { startEveryOrgApi, testWithWorkflows } from "./validationSetup.ts";

const test = testWithWorkflows();

const PATH = "/charities/donate/batch";
const NEW_CHARITIES = 23;

const donationTo = (ein: string) => ({ amount_cents: 10, ein });

test.serial(
  "a batch validates each new charity once and at most 20, and its repetition gets further",
  async (t) => {
    const { provider } = t.context;
    const { call, test: key, ledger } = await startEveryOrgApi(t);
    const eins = Array.from({ length: NEW_CHARITIES }, freshEin);
    for (const ein of eins) {
      addEveryOrgCharity(provider, `charity-${ein}`, ein);
    }
    const items = [...eins, ...eins].map((ein, index) => ({
      amount_cents: 10,
      ein,
      idempotency_key: `gift-${index}`,
    }));
    const send = () => call("POST", PATH, { key, body: { items } });
    const callsBefore = provider.calls.length;

    const { errors } = rejectionIn(await send());

    const late = [20, 21, 22].flatMap((place) => [place, place + NEW_CHARITIES]);
    t.deepEqual(
      errors.map(({ index }) => index),
      late.toSorted((one, two) => one - two),
    );
    t.true(
      errors.every(
        ({ status, error }) => status === 503 && /at most 20 new charities; try again/u.test(error),
      ),
    );
    t.deepEqual(await ledger(), NOTHING_RECORDED);
    t.is(provider.calls.length - callsBefore, 20);

    t.is(batchIn(await send()).succeeded, 2 * NEW_CHARITIES);
    t.is(provider.calls.length - callsBefore, NEW_CHARITIES);
    t.deepEqual(await ledger(), {
      donations: 2 * NEW_CHARITIES,
      count: 2 * NEW_CHARITIES,
      cents: 20 * NEW_CHARITIES,
    });
    t.true(batchIn(await send()).results.every(({ idempotent_replayed: replayed }) => replayed));
    t.is(provider.calls.length - callsBefore, NEW_CHARITIES);
  },
);

test.serial(
  "if the provider fails, items of known charities are recorded and the others have the status 503",
  async (t) => {
    const { provider } = t.context;
    const { call, test: key, ledger } = await startEveryOrgApi(t);
    const [known, lost, missing] = [freshEin(), freshEin(), freshEin()];
    addEveryOrgCharity(provider, `charity-${known}`, known);
    addEveryOrgCharity(provider, `charity-${lost}`, lost);
    const send = (eins: readonly string[], query = "") =>
      call("POST", `${PATH}${query}`, { key, body: { items: eins.map(donationTo) } });
    t.is(batchIn(await send([known])).succeeded, 1);
    t.like(rejectionIn(await send([missing])).errors[0], { index: 0, status: 400 });

    provider.faults.push("cut", "cut", "cut", "cut");
    const { results } = batchIn(await send([known, lost, known], "?atomic=false"));
    provider.faults.length = 0;

    t.deepEqual(
      results.map(({ status }) => status),
      [200, 503, 200],
    );
    t.is(
      results[1]?.body["error"],
      "the charity is not confirmed: its provider could not validate it; try again",
    );
    t.is(batchIn(await send([lost])).succeeded, 1);
    t.deepEqual(await ledger(), { donations: 4, count: 4, cents: 40 });
  },
);
