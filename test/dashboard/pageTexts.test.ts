import test from "ava";
import { presentDashboard, viewDashboard } from "../../api/pages/presentDashboard.ts";
import { linksOf } from "../../api/pages/renderDocument.ts";
import * as embeds from "../../api/pages/renderEmbeds.ts";
import { renderPage as renderPageOf } from "../../api/pages/renderPage.ts";
import { DEFAULT_PROFILE, HIDEABLE_SECTIONS } from "../../modules/accounts/profile.rules.ts";
import type { Dashboard, Section } from "../../modules/dashboard/readDashboard.ts";

/*
 * What the formats of a dashboard say about each kind of data. They are drawn without a database.
 */

const EMPTY: Dashboard = {
  slug: "green-shop-k3v9m2qd",
  name: "Green Shop",
  profile: DEFAULT_PROFILE,
  trees: { total: 0, month: 0, planted: 0, plantedAndVerified: 0 },
  bottles: { total: 0, month: 0 },
  donations: { count: 0, amountCents: 0 },
  months: [],
  sites: [],
  media: [],
  verifications: [],
  isPartnerSimulated: false,
  projected: { carbonTons: 0, areaHectares: 0 },
  sections: new Set<Section>(),
  updatedAt: new Date("2026-05-01T10:00:00Z"),
};

const LINKS = linksOf("https://impact.example", "/dashboard/green-shop-k3v9m2qd");
const viewOf = (dashboard: Dashboard) => viewDashboard(dashboard, LINKS);
const renderPage = (dashboard: Dashboard): string => renderPageOf(viewOf(dashboard));
const renderCard = (dashboard: Dashboard): string => embeds.renderCard(viewOf(dashboard));
const renderBadge = (dashboard: Dashboard): string => embeds.renderBadge(viewOf(dashboard));
const presentShield = (dashboard: Dashboard) => embeds.presentShield(viewOf(dashboard));

/** Returns a dashboard with trees, bottles and cents donated, each in one record. */
const dashboardOf = (trees: number, bottles: number, amountCents: number): Dashboard => {
  const hasData: Partial<Record<Section, boolean>> = {
    bottles: bottles > 0,
    donations: amountCents > 0,
  };
  return {
    ...EMPTY,
    trees: { ...EMPTY.trees, total: trees, month: trees },
    bottles: { total: bottles, month: bottles },
    donations: { count: amountCents > 0 ? 1 : 0, amountCents },
    sections: new Set(HIDEABLE_SECTIONS.filter((section) => hasData[section] === true)),
  };
};

/** Returns the words of a page, without its head. */
const wordsOf = (markup: string): string =>
  markup
    .slice(Math.max(0, markup.indexOf("<body>")))
    .replaceAll(/<[^>]*>/gu, " ")
    .replaceAll(/\s+/gu, " ")
    .trim();

test("one tree and one bottle are named in the singular", (t) => {
  const dashboard = dashboardOf(1, 1, 0);
  const page = wordsOf(renderPage(dashboard));
  t.regex(page, /1 tree registered/u);
  t.regex(page, /Ocean-bound bottle rescued 1 /u);
  t.regex(page, /Not planted yet\. Planting and verification take months\./u);
  t.regex(
    wordsOf(renderCard(dashboard)),
    /^Green Shop 1 tree registered, 0 planted and verified 1 ocean-bound bottle rescued\. /u,
  );
  t.regex(renderBadge(dashboard), /Green Shop: 1 tree registered, 0 planted and verified"/u);
});

test("a page with trees, of which none is planted yet, says if their partner is simulated", (t) => {
  const notice = /Simulation\. The planting partner is simulated\. It plants no trees\./u;
  const trees = { ...dashboardOf(3, 0, 0), isPartnerSimulated: true };
  t.regex(wordsOf(renderPage(trees)), notice);
  t.notRegex(wordsOf(renderPage({ ...trees, isPartnerSimulated: false })), notice);
  const bottles = { ...dashboardOf(0, 3, 0), isPartnerSimulated: true };
  t.notRegex(wordsOf(renderPage(bottles)), notice);
});

test("without trees, card and badge show the bottles, and without bottles the donations", (t) => {
  const bottles = dashboardOf(0, 20, 500);
  t.is(
    wordsOf(renderCard(bottles)),
    "Green Shop 20 ocean-bound bottles rescued $5.00 donated to charities. See the evidence",
  );
  t.like(presentShield(bottles), { label: "ocean-bound bottles rescued", message: "20" });
  const donations = dashboardOf(0, 0, 123_456);
  t.is(
    wordsOf(renderCard(donations)),
    "Green Shop $1,234.56 donated to charities See the evidence",
  );
  t.like(presentShield(donations), { label: "donated to charities", message: "$1,234.56" });
  t.regex(renderBadge(donations), /Green Shop: \$1,234\.56 donated to charities"/u);
});

test("a card without data says so, and a badge has zeros", (t) => {
  t.is(
    wordsOf(renderCard(EMPTY)),
    "Green Shop No trees are registered at the moment. See the evidence",
  );
  t.like(presentShield(EMPTY), { label: "trees registered", message: "0 · 0 verified" });
});

test("a page without data claims nothing about what was refunded or is hidden", (t) => {
  const page = wordsOf(renderPage({ ...dashboardOf(0, 20, 500), sections: new Set<Section>() }));
  t.regex(page, /No trees are registered at the moment\. New ones appear here right away\./u);
});

/** Returns the explanations at the end of a page. */
const methodOf = (dashboard: Dashboard): string =>
  /How these numbers are calculated(?<text>.*)Share this page/u.exec(wordsOf(renderPage(dashboard)))
    ?.groups?.["text"] ?? "";

test("the page explains only the numbers that it has", (t) => {
  const all = methodOf(dashboardOf(5, 5, 500));
  t.regex(all, /Registered Every tree and bottle registered for this organization\./u);
  t.regex(all, /Rescued bottles .* no evidence for single registrations/u);
  t.regex(all, /Donated .* in US dollars/u);
  const trees = methodOf(dashboardOf(5, 0, 0));
  t.regex(trees, /Every tree registered for this organization\./u);
  t.notRegex(trees, /bottle|Donated/u);
  const bottles = methodOf(dashboardOf(0, 5, 0));
  t.regex(bottles, /Every bottle registered for this organization\./u);
  t.notRegex(bottles, /tree|Donated/u);
  t.notRegex(methodOf(dashboardOf(0, 0, 500)), /Registered|tree|bottle/u);
});

test("names and stories keep their own direction of writing", (t) => {
  const name = "مؤسسة الغابات (Berlin)";
  const dashboard = {
    ...dashboardOf(1, 0, 0),
    name,
    profile: { ...DEFAULT_PROFILE, story: "قصتنا!" },
  };
  const page = renderPage(dashboard);
  t.true(page.includes(`<h1><bdi>${name}</bdi></h1>`));
  t.true(page.includes(`About <bdi>${name}</bdi>`));
  t.true(page.includes('<p dir="auto">قصتنا!</p>'));
  t.true(renderCard(dashboard).includes(`<h1><bdi>${name}</bdi></h1>`));
});

test("a printed page has its URL", (t) => {
  t.true(renderPage(EMPTY).includes(`<p class="printed">This page: ${LINKS.pageUrl}</p>`));
});

const site = (partner: string, planted: number, verified: number): Dashboard["sites"][number] => ({
  siteId: planted,
  partner,
  name: "Gazi Bay",
  organizationName: "Mikoko",
  region: "Kwale",
  country: "Kenya",
  latitude: -4.42,
  longitude: 39.51,
  factorId: "mangrove-1",
  planted,
  verified,
});

/** Returns a dashboard with 100 trees, planted at these sites. */
const plantedAt = (...sites: Dashboard["sites"]): Dashboard => ({
  ...EMPTY,
  trees: {
    total: 100,
    month: 0,
    planted: sites.reduce((sum, { planted }) => sum + planted, 0),
    plantedAndVerified: sites.reduce((sum, { verified }) => sum + verified, 0),
  },
  sites,
});

const textOf = (...sites: Dashboard["sites"]): string => wordsOf(renderPage(plantedAt(...sites)));

test("the page says apart how many trees are verified, and how many only planted", (t) => {
  t.regex(
    textOf(site("manual", 60, 25)),
    / 25 planted and verified, 25% of the registered trees\. Another 35 are planted and wait for verification\. /u,
  );
  t.regex(textOf(site("manual", 25, 25)), /25% of the registered trees\. How these/u);
  t.regex(textOf(site("manual", 60, 0)), / 60 planted so far\. Verification takes months\. /u);
  t.regex(
    textOf(site("manual", 60, 25), site("simulated", 20, 10)),
    /Another 10 are simulated\. Another 45 are planted and wait for verification \(10 of them simulated\)\. /u,
  );
  t.regex(
    textOf(site("simulated", 60, 0)),
    / 60 planted so far \(simulated\)\. Verification takes months\. /u,
  );
});

test("the share of verified trees is exact, and only the last tree makes it 100%", (t) => {
  for (const [verified, total, share] of [
    [29, 100, "29%"],
    [57, 100, "57%"],
    [1, 101, "less than 1%"],
    [1, 100, "1%"],
    [Number.MAX_SAFE_INTEGER - 1, Number.MAX_SAFE_INTEGER, "99%"],
    [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, "100%"],
  ] as const) {
    const dashboard = plantedAt(site("manual", verified, verified));
    const page = wordsOf(renderPage({ ...dashboard, trees: { ...dashboard.trees, total } }));
    t.true(page.includes(`planted and verified, ${share} of the registered trees.`), share);
  }
});

test("the JSON has how many trees are planted, and how many of them are simulated", (t) => {
  t.like(presentDashboard(viewOf(plantedAt(site("manual", 60, 25), site("simulated", 20, 10)))), {
    trees: { planted: 80, planted_simulated: 20, planted_and_verified: 35 },
  });
});

test("the badge has the organization's color", (t) => {
  t.regex(
    renderBadge({ ...EMPTY, profile: { ...DEFAULT_PROFILE, color: "#7a1fa2" } }),
    /fill="#7a1fa2"/u,
  );
});

test("the current month, which is not over, is marked in the chart and in the table", (t) => {
  const months = [
    { month: "2026-04", trees: 4, bottles: 0 },
    { month: "2026-05", trees: 3, bottles: 0 },
  ];
  const sections = new Set<Section>(["months"]);
  const page = wordsOf(renderPage({ ...dashboardOf(7, 0, 0), months, sections }));

  t.regex(page, / Apr 2026 4 May so far 3 /u);
  t.regex(page, / April 2026 4 May 2026 so far 3 /u);
});

test("the link home has the host as people write it", (t) => {
  const homeUrl = "https://xn--bcher-kva.example:8443/shop";
  const profile = { ...DEFAULT_PROFILE, homeUrl };
  const page = renderPage({ ...EMPTY, profile });

  t.regex(page, /href="https:\/\/xn--bcher-kva\.example:8443\/shop"[^>]*>bücher\.example:8443</u);
});
