import { CharityProviderError } from "../../modules/charities/provider.ts";
import { testWithDatabase } from "../support/database.ts";
import { freshEin } from "../support/factories.ts";
import { never, query, stage } from "./stageRemoteProvider.ts";

const test = testWithDatabase();

/** A page of 20 records of which some cannot be used, in the format of Change and Pledge. */
const faultyPage = (good: object) => [
  { id: null, name: "Tree 1" },
  { id: "unnamed", name: " " },
  { id: "numeric", name: "Tree 3", ein: 123_456_789, ngo_id: 123_456_789 },
  null,
  ...Array.from({ length: 15 }, (_, index) => ({ id: `n_${index}`, name: `Tree ${index}` })),
  good,
];
const FAULTS = { count: 4, firstIds: [null, "unnamed", "numeric", null] };

test("everyorg: records that cannot be used are left out and reported", async (t) => {
  const { provider, double, unusable } = await stage(t, "everyorg");
  const profileUrl = "https://www.every.org/unnamed";
  const faulty = [
    { name: "", profileUrl },
    { name: "Tree", profileUrl: "tree" },
    { name: "Tree", profileUrl: null },
  ];
  const good = { name: "Tree", profileUrl: "https://www.every.org/tree" };
  double.responses.set("/everyorg/search/tree", { nonprofits: [...faulty, good] });
  double.responses.set("/everyorg/search/many", {
    nonprofits: [...faulty, ...Array.from({ length: 47 }, () => good)],
  });
  double.responses.set("/everyorg/search/none", { nonprofits: faulty });

  const page = await provider.search(query, never);
  t.deepEqual(
    page.items.map(({ nonprofitId }) => nonprofitId),
    ["tree"],
  );
  t.like(page, { totalItems: 1, totalIsExact: true });
  t.deepEqual(unusable, [{ provider: "everyorg", count: 3, firstIds: [profileUrl, "tree", null] }]);
  t.like(await provider.search({ ...query, name: "many" }, never), {
    totalItems: 47,
    totalIsExact: false,
  });
  const error = await t.throwsAsync(provider.search({ ...query, name: "none" }, never), {
    instanceOf: CharityProviderError,
  });
  t.is(error.message, "everyorg: search: unexpected response format");
});

test("change: records that cannot be used are left out and reported, and count in a full page", async (t) => {
  const { provider, double, unusable } = await stage(t, "change");
  const ein = freshEin();
  const nonprofits = faultyPage({ id: "good", name: "Tree", ein });
  double.responses.set("/change/nonprofits", { nonprofits });

  const page = await provider.search(query, never);
  t.is(page.items.length, 16);
  t.like(page, { totalItems: 21, totalIsExact: false });
  t.deepEqual(unusable, [{ provider: "change", ...FAULTS }]);
  t.is((await provider.findByEin(ein, never))?.nonprofitId, "good");
  double.responses.set("/change/nonprofits", { nonprofits: nonprofits.slice(0, 4) });
  await t.throwsAsync(provider.search(query, never), { instanceOf: CharityProviderError });
});

test("pledge: records that cannot be used are left out and reported, and count in the total", async (t) => {
  const { provider, double, unusable } = await stage(t, "pledge");
  const ein = freshEin();
  const results = faultyPage({ id: "good", name: "Tree", ngo_id: ein });
  double.responses.set("/pledge/organizations", { total_count: 20, results });

  const page = await provider.search(query, never);
  t.is(page.items.length, 16);
  t.like(page, { totalItems: 20, totalIsExact: true });
  t.deepEqual(unusable, [{ provider: "pledge", ...FAULTS }]);
  t.is((await provider.findByEin(ein, never))?.nonprofitId, "good");
  double.responses.set("/pledge/organizations", { total_count: 4, results: results.slice(0, 4) });
  await t.throwsAsync(provider.search(query, never), { instanceOf: CharityProviderError });
});
