import test from "ava";
import {
  BACKGROUNDS,
  brandColorsOf,
  contrastOf,
  LEAST_CONTRAST,
  listColorAdjustments,
  parseColor,
} from "../../modules/accounts/brandColor.rules.ts";
import { createRenderings } from "../../api/standalone/createRenderings.ts";
import type {
  CertifiedDonation,
  CertifiedItem,
  CertifiedRegistration,
} from "../../modules/dashboard/certificates.sql.ts";
import { DEFAULT_PROFILE } from "../../modules/accounts/profile.rules.ts";
import { CERTIFICATE_URL } from "../../api/endpoints/certificateUrlEndpoint.ts";
import { CERTIFICATE_TOKEN } from "../../modules/dashboard/certificate.rules.ts";
import { renderCertificate } from "../../api/pages/renderCertificate.ts";

test("black on white has a contrast of 21, and a color none to itself", (t) => {
  t.is(contrastOf("#000000", "#ffffff"), 21);
  t.is(contrastOf("#abcdef", "#abcdef"), 1);
  // A value that WCAG's own examples give.
  t.is(contrastOf("#767676", "#ffffff").toFixed(2), "4.54");
});

test("every color is legible on every background of both modes", (t) => {
  const levels = [0, 64, 128, 192, 255].map((level) => level.toString(16).padStart(2, "0"));
  for (const red of levels) {
    for (const green of levels) {
      for (const blue of levels) {
        const color = `#${red}${green}${blue}`;
        const used = brandColorsOf(color);
        for (const appearance of ["light", "dark"] as const) {
          for (const background of Object.values(BACKGROUNDS[appearance])) {
            t.true(contrastOf(used[appearance], background) >= LEAST_CONTRAST, color);
          }
        }
      }
    }
  }
});

test("a legible color stays as it is, and others are reported with what replaces them", (t) => {
  t.is(brandColorsOf("#1c6b47").light, "#1c6b47");
  t.deepEqual(
    listColorAdjustments("#ffd400").map(({ appearance }) => appearance),
    ["light"],
  );
  const [adjustment] = listColorAdjustments("#000000");
  t.like(adjustment, { appearance: "dark" });
  t.is(adjustment?.used, brandColorsOf("#000000").dark);
});

test("colors are read in both notations, and nothing else is a color", (t) => {
  t.is(parseColor("#0A7"), "#00aa77");
  t.is(parseColor("#00AA77"), "#00aa77");
  for (const given of ["red", "#12", "#1234", "#12345g", "#1c6b47;}body{display:none}", ""]) {
    t.is(parseColor(given), null, given);
  }
});

const MEGABYTE = 1024 * 1024;

test("the same data are rendered once, and other data again", (t) => {
  const renderOnce = createRenderings<object, Buffer>((page) => page.length, {
    maximumBytes: 4 * MEGABYTE,
  });
  let count = 0;
  const render = (key: string, data: object): string =>
    renderOnce(key, data, () => Buffer.from(`page ${(count += 1)}`)).toString();
  const [data, later] = [{}, {}];

  t.is(render("page", data), "page 1");
  t.is(render("page", data), "page 1");
  t.is(render("card", data), "page 2");
  t.is(render("page", later), "page 3");
  t.is(render("page", later), "page 3");
});

test("what was rendered is evicted by its bytes, the least used first", (t) => {
  const renderOnce = createRenderings<object, Buffer>((page) => page.length, {
    maximumBytes: 4 * MEGABYTE,
  });
  const data = {};
  const rendered: number[] = [];
  const render = (index: number): void => {
    renderOnce(`page ${index}`, data, () => {
      rendered.push(index);
      return Buffer.alloc(MEGABYTE - Buffer.poolSize);
    });
  };
  for (let index = 0; index < 10; index += 1) {
    render(index);
    render(0);
  }
  t.deepEqual(rendered, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  for (const kept of [0, 7, 8, 9]) {
    render(kept);
  }
  t.is(rendered.length, 10);
  render(1);
  t.is(rendered.length, 11);
});

/*
 * What a certificate says. It is drawn without a database.
 */

const REGISTRATION: CertifiedRegistration = {
  token: "Sm1C9C9h6CdqkqBQqw2JHg",
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
  siteName: "Gazi Bay",
  country: "Kenya",
};

const DONATION: CertifiedDonation = {
  token: REGISTRATION.token,
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

const renderItems = (items: readonly CertifiedItem[]): string =>
  renderCertificate(
    {
      certified: {
        token: REGISTRATION.token,
        isOfOrder: items.length > 1,
        ownerId: "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11",
        ownerName: "Green Shop",
        slug: "green-shop-k3v9m2qd",
        items,
      },
      profile: DEFAULT_PROFILE,
    },
    "https://impact.example",
  );

const renderCertificateOf = (changes: Partial<CertifiedRegistration>): string =>
  renderItems([{ ...REGISTRATION, ...changes }]);

const withSingleSpaces = (page: string): string => page.replaceAll(/\s+/gu, " ");
const pageOf = (changes: Partial<CertifiedRegistration>): string =>
  withSingleSpaces(renderCertificateOf(changes));
const orderOf = (...items: readonly CertifiedItem[]): string =>
  withSingleSpaces(renderItems(items));

/** Returns what other sites show of a page, and its headline with the line below. */
const summaryOf = (page: string) => ({
  description: /property="og:description" content="([^"]*)"/u.exec(page)?.[1],
  headline: /<h2 id="what" class="headline">(.*?)<\/section>/u
    .exec(page)?.[1]
    ?.replaceAll(/<[^>]*>/gu, " ")
    .replaceAll(/\s+/gu, " ")
    .trim(),
});

test("a certificate of one tree is in the singular", (t) => {
  t.regex(pageOf({}), />Planted, and independently verified on Jul 1, 2026\.</u);
  t.regex(pageOf({ stage: "planted" }), />Planted on Jun 1, 2026, not verified yet\.</u);
  t.regex(pageOf({ count: 3, refundedCount: 1 }), /> ?1 was refunded\. 2 remain\.</u);
  t.regex(pageOf({ count: 3, refundedCount: 2 }), /> ?2 were refunded\. 1 remains\.</u);
  t.regex(pageOf({ count: 3 }), />All 3 planted, and independently verified on/u);
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

test("a date stays on one line", (t) => {
  t.regex(renderCertificateOf({}), /May\u00A01,\u00A02026/u);
});

test("a printed certificate has its URL", (t) => {
  t.regex(
    pageOf({}),
    /<p class="printed">This page: https:\/\/impact\.example\/certificate\/Sm1C9C9h6CdqkqBQqw2JHg<\/p>/u,
  );
});

test("the URL in the API description has a token that certificates can have", (t) => {
  const { pathname } = new URL(CERTIFICATE_URL.example.certificate_url);
  t.regex(pathname.slice("/certificate/".length), CERTIFICATE_TOKEN);
});
