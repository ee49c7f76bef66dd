import type { Charity } from "../../modules/charities/charities.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { CharityProvider } from "../../modules/charities/provider.ts";
import { CharityProviderError } from "../../modules/charities/provider.ts";
import { testWithDatabase } from "../support/database.ts";
import { freshEin } from "../support/factories.ts";
import { never, query, stage } from "./stageRemoteProvider.ts";
import type { RemoteName } from "./stageRemoteProvider.ts";
import type { Fault, ProviderDouble } from "./startProviderDouble.ts";

const test = testWithDatabase();

const REMOTE: readonly RemoteName[] = ["everyorg", "change", "pledge"];

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
    responses.set(`/pledge/organizations?q=${ein.slice(0, 2)}-${ein.slice(2)}`, {
      page: 1,
      per: 20,
      total_count: 1,
      results: [organization],
    });
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

for (const name of REMOTE) {
  test(`${name}: a charity is found by EIN and by id, and its details are stored for a day`, async (t) => {
    const { provider, double, clock } = await stage(t, name);
    const ein = freshEin();
    const id = `n_${ein}`;
    addCharity[name](double, id, ein);

    t.deepEqual(await provider.findByEin(ein, never), charityOf(id, ein));
    t.deepEqual(await provider.findById(id, never), charityOf(id, ein));
    const callsBefore = double.calls.length;
    clock.set("2026-03-11T11:59:59.000Z");
    t.deepEqual(await provider.findByEin(ein, never), charityOf(id, ein));
    t.deepEqual(await provider.findById(id, never), charityOf(id, ein));
    t.is(double.calls.length, callsBefore);
    clock.set("2026-03-11T12:00:01.000Z");
    await provider.findById(id, never);
    t.is(double.calls.length, callsBefore + 1);
  });

  test(`${name}: an unknown charity is null, and looked up again`, async (t) => {
    const { provider, double } = await stage(t, name);
    addCharity[name](double, "n_unrelated", freshEin());
    const ein = freshEin();
    t.is(await provider.findByEin(ein, never), null);
    t.is(await provider.findById("n_nobody", never), null);
    addCharity[name](double, `n_${ein}`, ein);
    t.not(await provider.findByEin(ein, never), null);
  });

  test(`${name}: an id cannot change the path`, async (t) => {
    const { provider, double } = await stage(t, name);
    for (const id of ["..", "../secrets", "a/b", "a?b=c", "a#b", " ", "%2e%2e", "a".repeat(300)]) {
      t.is(await provider.findById(id, never), null);
    }
    t.is(double.calls.length, 0);
  });

  const fails = test.macro({
    exec: async (t, faults: readonly Fault[], calls: number) => {
      const { provider, double } = await stage(t, name);
      double.faults.push(...faults);
      const error = await t.throwsAsync(provider.findById(`n_${freshEin()}`, never), {
        instanceOf: CharityProviderError,
      });
      t.is(double.calls.length, calls);
      t.false(/key|secret/u.test(error.message), "the message contains no key");
    },
    title: (given = "") => `${name}: ${given}`,
  });
  test("a 500 is retried once", fails, twice({ status: 500 }), 2);
  test("a 429 is retried once", fails, twice({ status: 429 }), 2);
  test(
    "a 429 with a Retry-After of a minute is not retried",
    fails,
    [{ status: 429, headers: { "retry-after": "60" } }],
    1,
  );
  test("a 401 is not retried", fails, [{ status: 401 }], 1);
  test("a redirect is not followed", fails, twice({ status: 302, headers: { location: "/x" } }), 2);
  test("a closed connection is retried once", fails, ["cut", "cut"], 2);
  test("a 200 with HTML is retried once", fails, twice({ status: 200, body: "<html>" }), 2);
  test("a 200 with null is an error", fails, [{ status: 200, body: "null" }], 1);
  test("a list in place of an object is an error", fails, [{ status: 200, body: "[]" }], 1);
  test(
    "a response over 4 MiB is rejected",
    fails,
    twice({ status: 200, body: " ".repeat(5 * 1024 * 1024) }),
    2,
  );

  test(`${name}: the error of a failed search does not name what was searched for`, async (t) => {
    const { provider, double } = await stage(t, name);
    double.faults.push(...twice({ status: 500 }));
    const error = await t.throwsAsync(provider.search({ ...query, name: "sought" }, never), {
      instanceOf: CharityProviderError,
    });
    t.is(error.message, `${name}: search: status 500`);
  });

  test(`${name}: a silent provider times out twice`, async (t) => {
    let attempt = new AbortController();
    const { provider, double } = await stage(t, name, () => {
      attempt = new AbortController();
      return attempt.signal;
    });
    const timeOut = (): void => attempt.abort();
    double.faults.push({ hang: timeOut }, { hang: timeOut });
    await t.throwsAsync(provider.findById(`n_${freshEin()}`, never), {
      instanceOf: CharityProviderError,
    });
    t.is(double.calls.length, 2);
  });

  test(`${name}: an aborted lookup stops and is not retried`, async (t) => {
    const { provider, double } = await stage(t, name);
    const caller = new AbortController();
    double.faults.push({ hang: () => caller.abort() });
    await t.throwsAsync(provider.findById(`n_${freshEin()}`, caller.signal), {
      instanceOf: CharityProviderError,
    });
    t.is(double.calls.length, 1);
  });
}

test("everyorg: a search pages through at most fifty hits and reports that there may be more", async (t) => {
  const { provider, double } = await stage(t, "everyorg");
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

  const last = await provider.search({ ...query, name: "tree & co", page: 3 }, never);
  t.is(last.items.length, 10);
  t.deepEqual(last.items[0], {
    nonprofitId: "tree-40",
    name: "Tree 40",
    ein: null,
    description: "",
    website: "",
    iconUrl: "",
  });
  t.like(last, { totalItems: 50, totalIsExact: false });
  t.like(await provider.search({ ...query, name: "few" }, never), {
    totalItems: 3,
    totalIsExact: true,
  });
});

test("everyorg: a charity that it cannot pass donations on to is not found", async (t) => {
  const { provider, double } = await stage(t, "everyorg");
  double.responses.set("/everyorg/nonprofit/closed", {
    data: { nonprofit: { name: "Closed", primarySlug: "closed", isDisbursable: false } },
  });
  t.is(await provider.findById("closed", never), null);
});

/** Looks up 130 charities that do not exist, and returns the errors. */
const findUnknown = async ({ findById }: CharityProvider) => {
  const results = await Promise.allSettled(
    Array.from({ length: 130 }, (_, index) => findById(`unknown-${index}`, never)),
  );
  return results.flatMap((result): readonly unknown[] =>
    result.status === "rejected" ? [result.reason] : [],
  );
};

test("everyorg: at most a hundred details a minute are requested, and 75 of them for one account", async (t) => {
  const { provider, otherProvider, double } = await stage(t, "everyorg");
  const ein = freshEin();
  addCharity.everyorg(double, `n_${ein}`, ein);
  const limited = await findUnknown(provider);
  t.is(double.calls.length, 75);
  t.is(limited.length, 55);
  t.true(
    limited.every((error) => error instanceof DomainError && error.code === "charity_unconfirmed"),
  );

  const failed = await findUnknown(otherProvider);
  t.is(double.calls.length, 100);
  t.is(failed.filter((error) => error instanceof CharityProviderError).length, 50);
  t.is(failed.filter((error) => error instanceof DomainError).length, 55);
});

test("change: a full page counts one more charity than was seen", async (t) => {
  const { provider, double } = await stage(t, "change");
  const nonprofits = Array.from({ length: 20 }, (_, index) => ({
    id: `n_${index}`,
    name: `Tree ${index}`,
  }));
  double.responses.set(
    "/change/nonprofits?search_term=tree&page=1&limit=20&public_key=change-public",
    {
      nonprofits,
      page: 1,
    },
  );
  double.responses.set("/change/nonprofits?search_term=tree&page=2&limit=20", {
    nonprofits: nonprofits.slice(0, 5),
    page: 2,
  });
  t.like(await provider.search(query, never), { totalItems: 21, totalIsExact: false });
  t.like(await provider.search({ ...query, page: 2 }, never), {
    totalItems: 25,
    totalIsExact: true,
  });
});

test("change: details are requested with both keys", async (t) => {
  const { provider, double } = await stage(t, "change");
  await provider.findById("n_auth", never);
  t.is(
    double.calls[0]?.authorization,
    `Basic ${Buffer.from("change-public:change-secret").toString("base64")}`,
  );
});

test("pledge: a total below the number of results is raised, and one that is no number is an error", async (t) => {
  const { provider, double } = await stage(t, "pledge");
  const results = [
    { id: "p-1", name: "Tree", ngo_id: "CA-123" },
    { id: "p-2", name: "Tree" },
  ];
  double.responses.set("/pledge/organizations?q=tree", { total_count: 1, results });
  const page = await provider.search(query, never);
  t.like(page, { totalItems: 2, totalIsExact: false });
  t.is(page.items[0]?.ein, null, "a foreign number is not an EIN");
  t.is(double.calls[0]?.authorization, "Bearer pledge-key");
  double.responses.set("/pledge/organizations?q=tree", { total_count: "many", results });
  await t.throwsAsync(provider.search(query, never), { instanceOf: CharityProviderError });
});

test("pledge: a page longer than requested is cut", async (t) => {
  const { provider, double } = await stage(t, "pledge");
  const results = Array.from({ length: 30 }, (_, index) => ({ id: `p-${index}`, name: "Tree" }));
  double.responses.set("/pledge/organizations", { total_count: 30, results });
  t.is((await provider.search(query, never)).items.length, 20);
});
