import { verifiedFact } from "./dashboardScene.ts";
import test from "ava";
import { viewDashboard } from "../../api/pages/presentDashboard.ts";
import { linksOf } from "../../api/pages/renderDocument.ts";
import * as embeds from "../../api/pages/renderEmbeds.ts";
import { renderPage as renderPageOf } from "../../api/pages/renderPage.ts";
import { DEFAULT_PROFILE } from "../../modules/accounts/profile.rules.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import type { PlantingFact } from "../../modules/planting/fact.rules.ts";
import { presentCertificate } from "../../api/pages/presentCertificate.ts";
import { renderCertificate } from "../../api/pages/renderCertificate.ts";
import { verifiedBy } from "../../modules/dashboard/certificate.rules.ts";
import type {
  CertifiedDonation,
  CertifiedItem,
  CertifiedRegistration,
} from "../../modules/dashboard/certificates.sql.ts";

const EMPTY: Dashboard = {
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
  isSimulated: false,
  projected: null,
  updatedAt: new Date("2026-05-01T10:00:00Z"),
};

const LINKS = linksOf("https://impact.example", "/dashboard/green-shop-k3v9m2qd");
const viewOf = (dashboard: Dashboard) => viewDashboard(dashboard, LINKS);
const renderPage = (dashboard: Dashboard) => String(renderPageOf(viewOf(dashboard)).body);
const renderCard = (dashboard: Dashboard) => String(embeds.renderCard(viewOf(dashboard)).body);
const renderBadge = (dashboard: Dashboard) => String(embeds.renderBadge(viewOf(dashboard)).body);

/** Returns a dashboard with trees, bottles and cents donated, each in one record. */
const dashboardOf = (trees: number, bottles: number, amountCents: number): Dashboard => ({
  ...EMPTY,
  trees: { ...EMPTY.trees, total: trees, month: trees },
  bottles: { total: bottles, month: bottles },
  donations: { count: amountCents > 0 ? 1 : 0, amountCents },
});

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
  t.regex(renderBadge(bottles), /Green Shop: 20 ocean-bound bottles rescued"/u);
  const donations = dashboardOf(0, 0, 123_456);
  const card = "Green Shop $1,234.56 donated to charities See the evidence";
  t.is(wordsOf(renderCard(donations)), card);
  t.regex(renderBadge(donations), /Green Shop: \$1,234\.56 donated to charities"/u);
});

test("a card without data says so, and a badge has zeros", (t) => {
  const card = "Green Shop No trees are registered at the moment. See the evidence";
  t.is(wordsOf(renderCard(EMPTY)), card);
  t.regex(renderBadge(EMPTY), /0 · 0 verified/u);
});

test("a page without data claims nothing about what was refunded or is hidden", (t) => {
  const page = wordsOf(renderPage({ ...EMPTY, bottles: null, donations: null }));
  t.regex(page, /No trees are registered at the moment\. New ones appear here right away\./u);
});

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

test("links share the URL and the summary of the page", (t) => {
  const page = renderPage(dashboardOf(1, 1, 0));
  const { summary } = viewOf(dashboardOf(1, 1, 0));
  const shared = [...page.matchAll(/<a href="(?<url>[^"]+)" rel="noopener noreferrer nofollow"/gu)];
  t.is(shared.length, 5);
  for (const { groups = {} } of shared) {
    const url = decodeURIComponent(groups["url"] ?? "");
    t.true(url.includes(LINKS.pageUrl), url);
    t.is(url.includes(summary), !/linkedin|facebook/u.test(url), url);
  }
});

test("names and stories keep their own direction of writing", (t) => {
  const name = "مؤسسة الغابات (Berlin)";
  const profile = { ...DEFAULT_PROFILE, story: "قصتنا!" };
  const dashboard = { ...dashboardOf(1, 0, 0), name, profile };
  const page = renderPage(dashboard);
  t.true(page.includes(`<h1><bdi>${name}</bdi></h1>`));
  t.true(page.includes(`About <bdi>${name}</bdi>`));
  t.true(page.includes('<p dir="auto">قصتنا!</p>'));
  t.true(renderCard(dashboard).includes(`<h1><bdi>${name}</bdi></h1>`));
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
  isSimulated: sites.every(({ partner }) => partner === "simulated"),
});

test("the page says apart how many trees are verified, and how many only planted", (t) => {
  const share = "% of the registered trees.";
  const waiting = "planted, waiting for verification";
  const simulated = "planted and verified in a simulation";
  for (const [partner, planted, verified, text] of [
    ["manual", 60, 25, `25 planted and verified, 25${share} Another 35 ${waiting}. `],
    ["manual", 25, 25, `25${share} Where the trees`],
    ["manual", 60, 0, "60 planted so far. Verification takes months. "],
    ["simulated", 20, 10, `10 ${simulated}, 10${share} Another 10 ${waiting} (simulated). `],
    ["simulated", 60, 0, "60 planted so far (simulated). Verification takes months. "],
  ] as const) {
    const page = wordsOf(renderPage(plantedAt(site(partner, planted, verified))));
    t.true(page.includes(` ${text}`), text);
  }
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

test("badge and card mark simulated trees", (t) => {
  const simulated = plantedAt(site("simulated", 20, 10));
  t.true(renderBadge(simulated).includes("10 verified (simulated)"));
  t.regex(wordsOf(renderCard(simulated)), /10 planted and verified \(simulated\)/u);
});

test("the badge has the organization's color", (t) => {
  const profile = { ...DEFAULT_PROFILE, color: "#7a1fa2" };
  t.regex(renderBadge({ ...EMPTY, profile }), /fill="#7a1fa2"/u);
});

test("the current month, which is not over, is marked", (t) => {
  const months = [
    { month: "2026-04", trees: 1_234_567, bottles: 0 },
    { month: "2026-05", trees: 3, bottles: 0 },
  ];
  const page = renderPage({ ...dashboardOf(7, 0, 0), months });

  t.regex(wordsOf(page), / Apr 2026 1\.2M May so far 3 /u);
  t.true(page.includes('title="1,234,567"'));
  t.notRegex(page, /Bottles/u);
});

test("a printed page or certificate has its URL", (t) => {
  for (const [page, { pageUrl }] of [
    [renderPage(EMPTY), LINKS],
    [pageOf({}), CERTIFICATE_LINKS],
  ] as const) {
    t.true(page.includes(`<p class="printed">This page: ${pageUrl}</p>`));
  }
});

const TOKEN = "9f86d081884c7d659a2feaa0c55ad015";

const ORDERED = {
  stage: "funds_distributed",
  occurred_at: "2026-05-02T10:00:00.000Z",
  partner_reference: "order-7",
} as const;
const PLANTED = {
  stage: "planted",
  occurred_at: "2026-06-01T10:00:00.000Z",
  media: [],
} satisfies PlantingFact;
const VERIFIED = verifiedFact("2026-07-01T10:00:00.000Z");

const REGISTRATION: CertifiedRegistration = {
  id: "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e12",
  kind: "tree",
  count: 1,
  refundedCount: 0,
  mode: "live",
  createdAt: new Date("2026-05-01T10:00:00Z"),
  isOrderedElsewhere: false,
  partner: "manual",
  partnerName: "Mikoko",
  facts: { funds_distributed: ORDERED, planted: PLANTED, planted_and_verified: VERIFIED },
};

const DONATION: CertifiedDonation = {
  id: "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e13",
  kind: "donation",
  mode: "live",
  amountCents: 5000,
  charityName: "American Red Cross",
  isCharityConfirmed: true,
  ein: "530196605",
  createdAt: new Date("2026-05-01T10:00:00Z"),
  isRefunded: false,
  refundedAt: null,
};
const REFUNDED = { isRefunded: true, refundedAt: new Date("2026-05-03T10:00:00Z") };

const CERTIFICATE_LINKS = linksOf("https://impact.example", `/certificate/${TOKEN}`);

const presentItems = (...items: readonly CertifiedItem[]) => presentWith("manual", items);

/** @param partner the one that gets new trees */
const presentWith = (partner: string, items: readonly CertifiedItem[]) =>
  presentCertificate(
    {
      token: TOKEN,
      createdAt: new Date("2026-08-01T10:00:00Z"),
      ownerId: "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11",
      ownerName: "Green Shop",
      slug: "green-shop-k3v9m2qd",
      items,
    },
    "Green Shop",
    { url: CERTIFICATE_LINKS.pageUrl, base: "", partnerFor: () => partner },
  );

const renderItems = (...items: readonly CertifiedItem[]): string =>
  String(renderCertificate(presentItems(...items), DEFAULT_PROFILE, CERTIFICATE_LINKS).body);
const orderOf = (...items: readonly CertifiedItem[]): string =>
  renderItems(...items).replaceAll(/\s+/gu, " ");
const pageOf = (changes: Partial<CertifiedRegistration>): string =>
  orderOf({ ...REGISTRATION, ...changes });
/** Returns what other sites show of a page, and its headline with the line below. */
const summaryOf = (page: string) => ({
  description: /property="og:description" content="([^"]*)"/u.exec(page)?.[1],
  headline: /<h2 id="what" class="headline">(.*?)<p class="issue">/u
    .exec(page)?.[1]
    ?.replaceAll(/<[^>]*>/gu, " ")
    .replaceAll(/\s+/gu, " ")
    .trim(),
});

test("a certificate of one tree is in the singular", (t) => {
  t.regex(pageOf({}), /> ?Planted and verified by a third party on Jul 1, 2026\. ?</u);
  const planted = pageOf({ facts: { planted: PLANTED } });
  t.regex(planted, /> ?Planted on Jun 1, 2026, not verified yet\. ?</u);
  t.regex(pageOf({ count: 3, refundedCount: 1 }), /> ?1 refunded, 2 left\.</u);
  t.regex(pageOf({ count: 3, refundedCount: 2 }), /> ?2 refunded, 1 left\.</u);
  t.regex(pageOf({ count: 3 }), /> ?All 3 planted and verified by a third party on/u);
});

test("a certificate of which a part was refunded shows what is left", (t) => {
  const rest = "The rest of what was registered was refunded.";
  t.deepEqual(summaryOf(pageOf({ count: 1000, refundedCount: 999 })), {
    description: `1 tree left. ${rest}`,
    headline: `1 tree left ${rest}`,
  });
  for (const [trees, donation, left] of [
    [{}, REFUNDED, "1 tree left."],
    [{ count: 2, refundedCount: 2 }, {}, "$50.00 donation to American Red Cross left."],
    [
      { count: 3, refundedCount: 2 },
      {},
      "1 tree and a donation of $50.00 to American Red Cross left.",
    ],
  ] as const) {
    const order = orderOf({ ...REGISTRATION, ...trees }, { ...DONATION, ...donation });
    t.is(summaryOf(order).description, `${left} ${rest}`);
  }
});

test("a certificate no longer counts once all it certifies is refunded", (t) => {
  const refunded = { ...REGISTRATION, refundedCount: 1 };
  const refundedDonation = { ...DONATION, ...REFUNDED };
  for (const page of [pageOf(refunded), orderOf(refunded, refundedDonation)]) {
    t.is(page.match(/>This certificate no longer counts\.</gu)?.length, 1);
  }
  t.is(
    summaryOf(pageOf(refunded)).description,
    "1 tree registered and refunded. This certificate no longer counts.",
  );
  for (const page of [orderOf(REGISTRATION, refundedDonation), orderOf(refunded, DONATION)]) {
    t.notRegex(page, /no longer counts/u);
    t.regex(page, /<dt>Refunded<\/dt>/u);
  }
});

test("other sites show what a certificate is about beside a link to it", (t) => {
  const page = pageOf({ count: 3 });
  t.true(page.includes('<meta property="og:title" content="Certificate of Green Shop" />'));
  t.is(summaryOf(page).description, "3 trees registered.");
  t.is(summaryOf(pageOf({ mode: "test" })).description, "Test data: 1 tree registered.");
  t.true(page.includes('<meta name="robots" content="noindex, nofollow" />'));
});

test("a certificate of simulated planting says so before and after the trees are planted", (t) => {
  const simulated = { partner: "simulated", partnerName: "Mikoko" } as const;
  const ordered = { ...simulated, facts: { funds_distributed: ORDERED } };
  for (const page of [pageOf(simulated), pageOf(ordered)]) {
    t.is(summaryOf(page).description, "Simulation: 1 tree registered.");
    t.regex(page, /<strong>Simulation\.<\/strong> The planting comes from a simulated partner\./u);
    t.regex(page, /<dt>Simulated<\/dt>/u);
  }
  t.regex(pageOf(ordered), />Planting has not been simulated yet\.</u);
  const inTestMode = pageOf({ ...simulated, mode: "test" });
  t.is(summaryOf(inTestMode).description, "Test data: 1 tree registered.");
});

test("trees without a planting order are marked if the partner that will get them is simulated", (t) => {
  const unordered = { ...REGISTRATION, partner: null, partnerName: null, facts: {} };
  const isSimulated = (partner: string, changes: Partial<CertifiedRegistration> = {}): boolean =>
    presentWith(partner, [{ ...unordered, ...changes }]).simulated;
  t.true(isSimulated("simulated"));
  t.false(isSimulated("manual"));
  t.false(isSimulated("simulated", { isOrderedElsewhere: true }));
  t.false(isSimulated("simulated", { kind: "bottle" }));
});

test("a certificate has its number, its date, the life of the trees, and who verified them with which document", (t) => {
  const page = pageOf({});
  const words = wordsOf(page);
  t.regex(words, / Certificate 9F86-D081 , issued Aug 1, 2026 /u);
  t.regex(
    words,
    / Registered May 1, 2026 Ordered May 2, 2026 Planted Jun 1, 2026 Verified Jul 1, 2026 /u,
  );
  t.regex(words, / Verified by Green Audit · Document Project Gazi Bay , Kwale, Kenya Species /u);
  const document_url = "https://audit.example/7.pdf";
  const photo_url = "https://photos.example/7.jpg";
  t.true(page.includes(`href="${document_url}"`));
  t.true(page.includes(`src="${photo_url}"`));
  t.true(page.includes('aria-label="1: Gazi Bay, Kenya: 1 planted"'));
  // A day stays on one line.
  t.regex(renderItems(REGISTRATION), /Aug\u00A01,\u00A02026/u);
  t.like(presentItems(REGISTRATION), {
    number: "9F86-D081",
    issued_at: "2026-08-01T10:00:00.000Z",
    items: [
      {
        planted_and_verified: 1,
        verification: { verifier: "Green Audit", by: "third_party", document_url },
        photo_url,
        project: { name: "Gazi Bay", country: "Kenya" },
      },
    ],
  });
});

test("before trees are planted, a certificate shows no place, photo or verifier, and which steps are pending", (t) => {
  const ordered = { facts: { funds_distributed: ORDERED } };
  const page = pageOf(ordered);
  t.regex(
    wordsOf(page),
    / Registered May 1, 2026 Ordered May 2, 2026 Planted pending Verified pending /u,
  );
  t.notRegex(page, /Gazi|photos\.example|Green Audit/u);
  t.like(presentItems({ ...REGISTRATION, ...ordered }), {
    items: [{ verification: null, photo_url: null, project: null }],
  });
  t.notRegex(wordsOf(pageOf({ ...ordered, isOrderedElsewhere: true })), /pending/u);
});

test("a verifier who has the name of the partner or of the organization at the site is no third party", (t) => {
  const planters = ["Mikoko", "Gazi Growers, Ltd."];
  t.is(verifiedBy("Green Audit", "manual", planters), "third_party");
  t.is(verifiedBy("MIKOKO", "manual", planters), "planting_partner");
  t.is(verifiedBy("gazi growers ltd", "manual", planters), "planting_partner");
  t.is(verifiedBy("Green Audit", "simulated", planters), "simulation");
  const facts = { planted_and_verified: { ...VERIFIED, verifier: "mikoko" } };
  t.regex(pageOf({ facts }), /Planted and verified by the planting partner on/u);
});
