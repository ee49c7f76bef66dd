import type { CharityProviderName } from "../../modules/accounts/accounts.rules.ts";
import type { Charity } from "../../modules/charities/charities.rules.ts";
import { createCharities } from "../../modules/charities/createCharities.ts";
import { CharityProviderError } from "../../modules/charities/provider.ts";
import type { DatabaseTest } from "../support/database.ts";
import { testWithDatabase } from "../support/database.ts";
import { freshEin } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { configOf } from "./donations/donationSetup.ts";
import { startProviderDouble } from "./startProviderDouble.ts";
import type { Fault, ProviderDouble } from "./startProviderDouble.ts";

const test = testWithDatabase();

type RemoteName = Exclude<CharityProviderName, "catalogue">;

const REMOTE: readonly RemoteName[] = ["everyorg", "change", "pledge"];

const never = new AbortController().signal;

/** Starts a double of the remote providers, and creates the named provider with it. */
const stage = async (
  t: DatabaseTest,
  name: RemoteName,
  // No attempt times out unless its test says so, so a busy machine does not look like a silent provider.
  startTimeout = () => never,
) => {
  const double = await startProviderDouble(t);
  const clock = createMovableClock("2026-03-10T12:00:00.000Z");
  const config = configOf(double);
  const charities = createCharities({ db: t.context.db, clock, config, startTimeout });
  const { find, search } = charities.named(name, crypto.randomUUID());
  return {
    byEin: (ein: string) => find({ ein, nonprofitId: null }, never),
    byId: (nonprofitId: string, signal = never) => find({ ein: null, nonprofitId }, signal),
    search: (query: { readonly name?: string; readonly page?: number } = {}) =>
      search({ name: "tree", ein: null, page: 1, pageSize: 20, ...query }, never),
    double,
    clock,
  };
};

/** Adds one charity to the double in the provider's own format. */
const addCharity: Record<RemoteName, (double: ProviderDouble, id: string, ein: string) => void> = {
  everyorg: ({ responses }, id, ein) => {
    const nonprofit = {
      id: "b1d5",
      name: "Tree People",
      primarySlug: id,
      ein,
      isDisbursable: true,
      description: "Plants…",
      descriptionLong: "Plants trees.",
      locationAddress: "LOS ANGELES, CA",
      nteeCode: null,
      logoUrl: "https://res.example.org/logo.png",
      coverImageUrl: null,
      profileUrl: `https://www.every.org/${id}`,
      websiteUrl: "treepeople.example.org",
    };
    responses.set(`/everyorg/nonprofit/${ein}`, { data: { nonprofit, nonprofitTags: [] } });
    responses.set(`/everyorg/nonprofit/${id}`, { data: { nonprofit, nonprofitTags: [] } });
  },
  change: ({ responses }, id, ein) => {
    const nonprofit = {
      id,
      name: "Tree People",
      ein: `${ein.slice(0, 2)}-${ein.slice(2)}`,
      icon_url: "https://res.example.org/logo.png",
      mission: "Plants trees.",
      website: "treepeople.example.org",
      email: null,
      socials: {},
    };
    responses.set(`/change/nonprofits/${id}`, nonprofit);
    responses.set(`/change/nonprofits?search_term=${ein}`, {
      nonprofits: [{ id: "n_other", name: "Another", ein: null }, nonprofit],
      page: 1,
    });
  },
  pledge: ({ responses }, id, ein) => {
    const organization = {
      id,
      name: "Tree People",
      ngo_id: ein,
      mission: "Plants trees.",
      website_url: "treepeople.example.org",
      logo_url: "https://res.example.org/logo.png",
      lat: null,
    };
    responses.set(`/pledge/organizations/${id}`, organization);
    // Its documentation does not say whether its search expects the dash.
    const counted = { page: 1, per: 20, total_count: 1, results: [organization] };
    responses.set(`/pledge/organizations?q=${ein.slice(0, 2)}-${ein.slice(2)}`, counted);
    responses.set("/pledge/organizations", { page: 1, per: 20, total_count: 0, results: [] });
  },
};

const charityOf = (nonprofitId: string, ein: string): Charity => ({
  nonprofitId,
  name: "Tree People",
  ein,
  description: "Plants trees.",
  website: "https://treepeople.example.org",
  iconUrl: "https://res.example.org/logo.png",
});

const twice = (fault: Fault): readonly Fault[] => [fault, fault];

/** What the provider does, and how often it is called. */
const FAULTS: readonly (readonly [string, readonly Fault[], number])[] = [
  ["a 500 is retried once", twice({ status: 500 }), 2],
  ["a 429 is retried once", twice({ status: 429 }), 2],
  ["a 401 is not retried", [{ status: 401 }], 1],
  ["a redirect is not followed", twice({ status: 302, headers: { location: "/x" } }), 2],
  ["a closed connection is retried once", ["cut", "cut"], 2],
  ["a 200 with HTML is retried once", twice({ status: 200, body: "<html>" }), 2],
  ["a 200 with null is an error", [{ status: 200, body: "null" }], 1],
  ["a list in place of an object is an error", [{ status: 200, body: "[]" }], 1],
  ["a body over 4 MiB is rejected", twice({ status: 200, body: " ".repeat(5 * 1024 * 1024) }), 2],
];

const isFailure = { instanceOf: CharityProviderError };

for (const name of REMOTE) {
  test(`${name}: a charity is found by EIN and by id, and remembered for a day`, async (t) => {
    const { byEin, byId, double, clock } = await stage(t, name);
    const ein = freshEin();
    const id = `n_${ein}`;
    addCharity[name](double, id, ein);

    for (const time of ["2026-03-10T12:00:00.000Z", "2026-03-11T11:59:59.000Z"]) {
      clock.set(time);
      t.deepEqual(await byEin(ein), charityOf(id, ein));
      t.deepEqual(await byId(id), charityOf(id, ein));
    }
    const callsBefore = double.calls.length;
    await byId(id);
    t.is(double.calls.length, callsBefore);
    clock.set("2026-03-11T12:00:01.000Z");
    await byId(id);
    t.is(double.calls.length, callsBefore + 1);
  });

  test(`${name}: an unknown charity is null, and looked up again`, async (t) => {
    const { byEin, byId, double } = await stage(t, name);
    addCharity[name](double, "n_unrelated", freshEin());
    const ein = freshEin();
    t.is(await byEin(ein), null);
    t.is(await byId("n_nobody"), null);
    addCharity[name](double, `n_${ein}`, ein);
    t.not(await byEin(ein), null);
  });
}

test("an id cannot change the path", async (t) => {
  const { byId, double } = await stage(t, "everyorg");
  for (const id of ["..", "../secrets", "a/b", "a?b=c", "a#b", " ", "%2e%2e", "a".repeat(300)]) {
    t.is(await byId(id), null);
  }
  t.is(double.calls.length, 0);
});

for (const [title, faults, calls] of FAULTS) {
  test(title, async (t) => {
    const { byId, double } = await stage(t, "everyorg");
    double.faults.push(...faults);
    const error = await t.throwsAsync(byId("n_1"), isFailure);
    t.is(double.calls.length, calls);
    t.false(/key|secret/u.test(error.message), "the message contains no key");
  });
}

test("the error of a failed search names neither what was searched for nor a key", async (t) => {
  for (const name of REMOTE) {
    const { search, double } = await stage(t, name);
    double.faults.push(...twice({ status: 500 }));
    const error = await t.throwsAsync(search({ name: "sought" }), isFailure);
    t.is(error.message, `${name}: search: status 500`);
  }
});

test("a silent provider times out twice, and an aborted lookup is not retried", async (t) => {
  let attempt = new AbortController();
  const { byId, double } = await stage(t, "everyorg", () => {
    attempt = new AbortController();
    return attempt.signal;
  });
  const timeOut = (): void => attempt.abort();
  double.faults.push({ hang: timeOut }, { hang: timeOut });
  await t.throwsAsync(byId("n_1"), isFailure);
  t.is(double.calls.length, 2);

  const caller = new AbortController();
  double.faults.push({ hang: () => caller.abort() });
  await t.throwsAsync(byId("n_1", caller.signal), isFailure);
  t.is(double.calls.length, 3);
});

test("everyorg: a search pages through at most fifty hits", async (t) => {
  const { search, double } = await stage(t, "everyorg");
  const nonprofits = Array.from({ length: 50 }, (_, index) => ({
    name: `Tree ${index}`,
    profileUrl: `https://www.every.org/tree-${index}`,
    description: null,
    ein: null,
    logoUrl: null,
    websiteUrl: "javascript:alert(1)",
    matchedTerms: [],
  }));
  double.responses.set("/everyorg/search/tree & co?take=50", { nonprofits });
  double.responses.set("/everyorg/search/few", { nonprofits: nonprofits.slice(0, 3) });

  const last = await search({ name: "tree & co", page: 3 });
  t.is(last.items.length, 10);
  const bare = { ein: null, description: "", website: "", iconUrl: "" };
  t.deepEqual(last.items[0], { nonprofitId: "tree-40", name: "Tree 40", ...bare });
  t.like(last, { totalItems: 50 });
  t.like(await search({ name: "few" }), { totalItems: 3 });
});

test("everyorg: a charity that it cannot pass donations on to is not found", async (t) => {
  const { byId, double } = await stage(t, "everyorg");
  const nonprofit = { name: "Closed", primarySlug: "closed", isDisbursable: false };
  double.responses.set("/everyorg/nonprofit/closed", { data: { nonprofit } });
  t.is(await byId("closed"), null);
});

test("change: a full page counts one more charity than was seen, and details are requested with both keys", async (t) => {
  const { search, byId, double } = await stage(t, "change");
  await byId("n_auth");
  const keys = Buffer.from("change-public:change-secret").toString("base64");
  t.is(double.calls[0]?.authorization, `Basic ${keys}`);
  const nonprofits = Array.from({ length: 20 }, (_, index) => ({
    id: `n_${index}`,
    name: `Tree ${index}`,
  }));
  const url = "/change/nonprofits?search_term=tree&limit=20";
  double.responses.set(`${url}&page=1&public_key=change-public`, { nonprofits, page: 1 });
  double.responses.set(`${url}&page=2`, { nonprofits: nonprofits.slice(0, 5), page: 2 });
  t.like(await search(), { totalItems: 21 });
  t.like(await search({ page: 2 }), { totalItems: 25 });
});

test("pledge: a total below the number of results is raised, and one that is no number is an error", async (t) => {
  const { search, double } = await stage(t, "pledge");
  const results = [
    { id: "p-1", name: "Tree", ngo_id: "CA-123" },
    { id: "p-2", name: "Tree" },
  ];
  double.responses.set("/pledge/organizations?q=tree", { total_count: 1, results });
  const page = await search();
  t.like(page, { totalItems: 2 });
  t.is(page.items[0]?.ein, null, "a foreign number is not an EIN");
  t.is(double.calls[0]?.authorization, "Bearer pledge-key");
  const many = Array.from({ length: 30 }, (_, index) => ({ id: `p-${index}`, name: "Tree" }));
  double.responses.set("/pledge/organizations?q=tree", { total_count: 30, results: many });
  t.is((await search()).items.length, 20, "a page longer than requested is cut");
  double.responses.set("/pledge/organizations?q=tree", { total_count: "many", results });
  await t.throwsAsync(search(), isFailure);
});

test("everyorg: records that cannot be used are left out", async (t) => {
  const { search, double } = await stage(t, "everyorg");
  const profileUrl = "https://www.every.org/unnamed";
  const faulty = [
    { name: "", profileUrl },
    { name: "Tree", profileUrl: "tree" },
    { name: "Tree", profileUrl: null },
  ];
  const good = { name: "Tree", profileUrl: "https://www.every.org/tree" };
  const many = [...faulty, ...Array.from({ length: 47 }, () => good)];
  double.responses.set("/everyorg/search/tree", { nonprofits: [...faulty, good] });
  double.responses.set("/everyorg/search/many", { nonprofits: many });
  double.responses.set("/everyorg/search/none", { nonprofits: faulty });

  const { items, totalItems } = await search();
  const ids = items.map(({ nonprofitId }) => nonprofitId);
  t.deepEqual(ids, ["tree"]);
  t.is(totalItems, 1);
  t.like(await search({ name: "many" }), { totalItems: 47 });
  const error = await t.throwsAsync(search({ name: "none" }), isFailure);
  t.is(error.message, "everyorg: search: unexpected response format");
});
