import test from "ava";
import { CERTIFICATE_URL_EXAMPLE } from "../../api/endpoints/certificateEndpoints.ts";
import { presentCertificate, viewCertificate } from "../../api/pages/presentCertificate.ts";
import { renderCertificate } from "../../api/pages/renderCertificate.ts";
import { DEFAULT_PROFILE } from "../../modules/accounts/profile.rules.ts";
import { CERTIFICATE_TOKEN, verifiedBy } from "../../modules/dashboard/certificate.rules.ts";
import type {
  CertifiedDonation,
  CertifiedItem,
  CertifiedRegistration,
} from "../../modules/dashboard/certificates.sql.ts";

/*
 * What a certificate says. It is drawn without a database.
 */

const TOKEN = "9f86d081884c7d659a2feaa0c55ad015";

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
  stage: "planted_and_verified",
  plantedAt: new Date("2026-06-01T10:00:00Z"),
  verifiedAt: new Date("2026-07-01T10:00:00Z"),
  site: {
    id: 7,
    name: "Gazi Bay",
    organizationName: "Gazi Growers",
    region: "Kwale",
    country: "Kenya",
    latitude: -4.42,
    longitude: 39.51,
  },
  reached: [
    { stage: "funds_distributed", at: new Date("2026-05-02T10:00:00Z") },
    { stage: "planted", at: new Date("2026-06-01T10:00:00Z") },
    { stage: "planted_and_verified", at: new Date("2026-07-01T10:00:00Z") },
  ],
  verification: {
    verifier: "Green Audit",
    document: "https://audit.example/7.pdf",
    species: ["Rhizophora mucronata"],
  },
  photo: { url: "https://photos.example/7.jpg", takenAt: new Date("2026-07-01T10:00:00Z") },
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

const viewOf = (...items: readonly CertifiedItem[]) =>
  viewCertificate(
    {
      certified: {
        token: TOKEN,
        isOfOrder: items.length > 1,
        createdAt: new Date("2026-08-01T10:00:00Z"),
        ownerId: "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11",
        ownerName: "Green Shop",
        slug: "green-shop-k3v9m2qd",
        items,
      },
      profile: DEFAULT_PROFILE,
    },
    "https://impact.example",
  );

const withSingleSpaces = (page: string): string => page.replaceAll(/\s+/gu, " ");
const orderOf = (...items: readonly CertifiedItem[]): string =>
  withSingleSpaces(renderCertificate(viewOf(...items)));
const pageOf = (changes: Partial<CertifiedRegistration>): string =>
  orderOf({ ...REGISTRATION, ...changes });
const wordsOf = (page: string): string =>
  withSingleSpaces(page.slice(page.indexOf("<body>")).replaceAll(/<[^>]*>/gu, " "));

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
  t.regex(pageOf({ stage: "planted" }), /> ?Planted on Jun 1, 2026, not verified yet\. ?</u);
  t.regex(pageOf({ count: 3, refundedCount: 1 }), /> ?1 was refunded\. 2 remain\.</u);
  t.regex(pageOf({ count: 3, refundedCount: 2 }), /> ?2 were refunded\. 1 remains\.</u);
  t.regex(pageOf({ count: 3 }), /> ?All 3 planted and verified by a third party on/u);
});

test("a certificate of which a part was refunded shows what remains, and what was registered", (t) => {
  t.deepEqual(summaryOf(pageOf({ count: 1000, refundedCount: 999 })), {
    description: "1 tree remains. 1,000 trees registered, 999 trees refunded.",
    headline: "1 tree remains 1,000 trees registered, 999 trees refunded.",
  });
  t.deepEqual(summaryOf(orderOf(REGISTRATION, { ...DONATION, ...REFUNDED })), {
    description:
      "1 tree remains. 1 tree and a donation of $50.00 to American Red Cross registered, a donation of $50.00 to American Red Cross refunded.",
    headline:
      "1 tree remains 1 tree and a donation of $50.00 to American Red Cross registered, a donation of $50.00 to American Red Cross refunded.",
  });
  t.is(
    summaryOf(orderOf({ ...REGISTRATION, count: 2, refundedCount: 2 }, DONATION)).description,
    "$50.00 donation to American Red Cross remains. 2 trees and a donation of $50.00 to American Red Cross registered, 2 trees refunded.",
  );
  t.is(
    summaryOf(orderOf({ ...REGISTRATION, count: 3, refundedCount: 2 }, DONATION)).description,
    "1 tree and a donation of $50.00 to American Red Cross remain. 3 trees and a donation of $50.00 to American Red Cross registered, 2 trees refunded.",
  );
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
  t.true(page.includes('<meta property="og:description" content="3 trees registered." />'));
  t.true(pageOf({ mode: "test" }).includes('content="Test data: 1 tree registered."'));
  t.true(page.includes('<meta name="robots" content="noindex, nofollow" />'));
});

test("a certificate of simulated planting says so before and after the trees are planted", (t) => {
  const simulated = { partner: "simulated", partnerName: "Mikoko" } as const;
  const ordered = { ...simulated, stage: "allocated", plantedAt: null, verifiedAt: null } as const;
  for (const page of [pageOf(simulated), pageOf(ordered)]) {
    t.true(
      page.includes('<meta property="og:description" content="Simulation: 1 tree registered." />'),
    );
    t.regex(page, /<strong>Simulation\.<\/strong> The planting comes from a simulated partner\./u);
    t.regex(page, /<dt>Simulated<\/dt>/u);
  }
  t.regex(pageOf(ordered), />Planting has not been simulated yet\.</u);
  t.true(
    pageOf({ ...simulated, mode: "test" }).includes('content="Test data: 1 tree registered."'),
  );
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
  t.true(page.includes('href="https://audit.example/7.pdf"'));
  t.true(page.includes('src="https://photos.example/7.jpg"'));
  t.true(page.includes('aria-label="1: Gazi Bay, Kenya: 1 planted"'));
  // A day stays on one line.
  t.regex(renderCertificate(viewOf(REGISTRATION)), /Aug\u00A01,\u00A02026/u);
  t.like(presentCertificate(viewOf(REGISTRATION)), {
    number: "9F86-D081",
    issued_at: "2026-08-01T10:00:00.000Z",
    planted_and_verified: 1,
    verification: {
      verifier: "Green Audit",
      by: "third_party",
      document_url: "https://audit.example/7.pdf",
    },
    photo_url: "https://photos.example/7.jpg",
    project: { name: "Gazi Bay", country: "Kenya" },
  });
});

test("before trees are planted, a certificate shows no place, photo or verifier, and which steps are pending", (t) => {
  const ordered = {
    stage: "funds_distributed",
    reached: REGISTRATION.reached.slice(0, 1),
  } as const;
  const page = pageOf(ordered);
  t.regex(
    wordsOf(page),
    / Registered May 1, 2026 Ordered May 2, 2026 Planted pending Verified pending /u,
  );
  t.notRegex(page, /Gazi|photos\.example|Green Audit/u);
  t.like(presentCertificate(viewOf({ ...REGISTRATION, ...ordered })), {
    verification: null,
    photo_url: null,
    project: null,
  });
  t.notRegex(wordsOf(pageOf({ ...ordered, isOrderedElsewhere: true })), /pending/u);
});

test("a verifier who has the name of the partner or of the organization at the site is no third party", (t) => {
  const planters = ["Mikoko", "Gazi Growers, Ltd."];
  t.is(verifiedBy("Green Audit", "manual", planters), "third_party");
  t.is(verifiedBy("MIKOKO", "manual", planters), "planting_partner");
  t.is(verifiedBy("gazi growers ltd", "manual", planters), "planting_partner");
  t.is(verifiedBy("Green Audit", "simulated", planters), "simulation");
  const verification = { verifier: "mikoko", document: "/a.svg", species: ["Avicennia"] };
  t.regex(pageOf({ verification }), /Planted and verified by the planting partner on/u);
});

test("a printed certificate has its URL", (t) => {
  t.regex(
    pageOf({}),
    /<p class="printed">This page: https:\/\/impact\.example\/certificate\/9f86d081884c7d659a2feaa0c55ad015<\/p>/u,
  );
});

test("the URL in the API description has a token that certificates can have", (t) => {
  const { pathname } = new URL(CERTIFICATE_URL_EXAMPLE.certificate_url);
  t.regex(pathname.slice("/certificate/".length), CERTIFICATE_TOKEN);
});
