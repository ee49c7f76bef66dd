import { KINDS } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import type { Ein } from "../../modules/charities/charities.rules.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { chooseBySeed } from "../../modules/planting/seededChoice.rules.ts";
import type { SeededChoice } from "../../modules/planting/seededChoice.rules.ts";

/** What a record's certificate shows. */
type CertificateLabel = "verified" | "recent" | "refunded" | "bottles" | "donation";

/** A write of the demo's organization. */
export type OrganizationStep = { readonly at: Date } & (
  | {
      readonly kind: "register";
      readonly mode: "live" | "test";
      readonly unit: Kind;
      readonly count: number;
      readonly attribution: string;
      readonly campaign: string;
      readonly country: string;
      readonly orderNumber: number;
      /** Null if it has no certificate. */
      readonly certificate: CertificateLabel | null;
    }
  /** Refunds the trees of that order; all that remain if `count` is null. */
  | { readonly kind: "refund"; readonly orderNumber: number; readonly count: number | null }
  | {
      readonly kind: "donate";
      readonly ein: Ein;
      readonly amountCents: number;
      readonly attribution: string;
      readonly orderNumber: number;
      /** Null if it has no certificate. */
      readonly certificate: CertificateLabel | null;
    }
  | { readonly kind: "refund_donation"; readonly orderNumber: number }
);

/** A write of the demo's store. */
export type StoreStep = { readonly at: Date } & (
  | {
      readonly kind: "register";
      readonly unit: Kind;
      readonly count: number;
      readonly customer: string;
      readonly orderNumber: number;
    }
  | {
      readonly kind: "donate";
      readonly ein: Ein;
      readonly amountCents: number;
      readonly customer: string;
      readonly orderNumber: number;
    }
  | { readonly kind: "refund"; readonly quantity: number }
  | { readonly kind: "topup"; readonly amountCents: number }
);

/** The writes between two orders of trees. */
export type DemoPeriod = {
  readonly organization: readonly OrganizationStep[];
  readonly store: readonly StoreStep[];
  /** When the trees are ordered; null at the end. */
  readonly orderedAt: Date | null;
};

const DAYS = 365;
const TEST_DAYS = 80;
const PLANTING_ORDER_DAYS = 14;
const TOPUP_CENTS = 25_000;

export const DEMO_STORE = {
  domain: "shop.northsea.example",
  treePriceCents: 45,
  bottlePriceCents: 12,
  lowBalanceCents: 5000,
} as const;

const ATTRIBUTIONS = ["checkout", "checkout", "checkout", "newsletter", "loyalty", "staff"];
const COUNTRIES = ["DK", "DE", "NL", "NO", "SE", "GB"];
/** EINs of the starter catalogue: The Nature Conservancy, Oceana, Ocean Conservancy, World Central Kitchen. */
const CHARITIES = ["530242652", "510401308", "237245152", "273521132"];
const DONATIONS_CENTS = [500, 1000, 1500, 2500, 5000, 12_000];
const GIVEN_NAMES = ["Ida", "Lars", "Mette", "Jonas", "Freja", "Anton", "Signe", "Emil"];
const FAMILY_NAMES = ["Holm", "Berg", "Lund", "Dahl", "Krogh", "Winther"];

/** Each campaign lasts some weeks of the year. */
const campaignOf = (at: Date): string => {
  const month = at.getUTCMonth();
  if (month === 10 || month === 11) {
    return "winter";
  }
  return month >= 2 && month <= 4 ? "spring" : "always-on";
};

/** How busy a day is: more each month, most before the end of the year, least at weekends. */
const activityOf = (at: Date, day: number): number => {
  const growth = 0.6 + (0.9 * day) / DAYS;
  const season = campaignOf(at) === "winter" ? 1.7 : campaignOf(at) === "spring" ? 1.2 : 1;
  const isWeekend = at.getUTCDay() % 6 === 0;
  return growth * season * (isWeekend ? 0.6 : 1);
};

const chance = (choice: SeededChoice, percent: number): boolean =>
  choice.between(1, 100) <= percent;

/** A refund is possible in the month of the registration only. */
const isSameMonth = (one: Date, other: Date): boolean =>
  one.toISOString().slice(0, 7) === other.toISOString().slice(0, 7);

/** Plans the organization's steps of one day. */
const planOrganization = (
  choice: SeededChoice,
  midnight: Date,
  day: number,
  nextOrder: () => number,
): OrganizationStep[] => {
  const activity = activityOf(midnight, day);
  const timeOf = (from: number, to: number): Date =>
    new Date(midnight.getTime() + choice.between(from * 3600, to * 3600) * 1000);
  const steps: OrganizationStep[] = [];
  const register = (
    unit: Kind,
    count: number,
    mode: "live" | "test" = "live",
    certificate: CertificateLabel | null = null,
    at = timeOf(6, 20),
  ): number => {
    const orderNumber = nextOrder();
    steps.push({
      at,
      kind: "register",
      mode,
      unit,
      count: Math.max(1, Math.round(count)),
      attribution: choice.pick(ATTRIBUTIONS),
      campaign: campaignOf(midnight),
      country: choice.pick(COUNTRIES),
      orderNumber,
      certificate,
    });
    return orderNumber;
  };
  for (let index = choice.between(1, 2); index > 0; index -= 1) {
    register("tree", choice.between(3, 24) * activity);
  }
  if (chance(choice, 45)) {
    register("bottle", choice.between(4, 40) * activity);
  }
  if (day % 30 === 12) {
    // What a company orders for its own customers.
    const certificate = day === 72 ? "verified" : day === 342 ? "recent" : null;
    register("tree", choice.between(180, 420) * activity, "live", certificate);
  }
  if (day === 200) {
    register("bottle", 150, "live", "bottles");
  }
  if (chance(choice, 5) || day === 300) {
    const at = timeOf(6, 12);
    const certificate = day === 300 ? "refunded" : null;
    const orderNumber = register("tree", choice.between(4, 20), "live", certificate, at);
    const refundedAt = new Date(at.getTime() + choice.between(2, 30) * 3_600_000);
    const isPartial = certificate === null && chance(choice, 40);
    if (isSameMonth(at, refundedAt)) {
      steps.push({ at: refundedAt, kind: "refund", orderNumber, count: isPartial ? 2 : null });
    }
  }
  const isCertifiedDonation = day === 310;
  if (chance(choice, 30) || isCertifiedDonation) {
    const orderNumber = nextOrder();
    const at = timeOf(8, 20);
    steps.push({
      at,
      kind: "donate",
      ein: choice.pick(CHARITIES),
      amountCents: choice.pick(DONATIONS_CENTS),
      attribution: choice.pick(ATTRIBUTIONS),
      orderNumber,
      certificate: isCertifiedDonation ? "donation" : null,
    });
    if (chance(choice, 6) && !isCertifiedDonation) {
      const refundedAt = new Date(at.getTime() + choice.between(1, 3) * DAY_MS);
      steps.push({ at: refundedAt, kind: "refund_donation", orderNumber });
    }
  }
  if (day >= DAYS - TEST_DAYS && chance(choice, 60)) {
    register(choice.pick(KINDS), choice.between(1, 10), "test");
  }
  return steps;
};

/** Plans the store's steps of one day. */
const planStore = (
  choice: SeededChoice,
  midnight: Date,
  day: number,
  nextOrder: () => number,
): StoreStep[] => {
  const timeOf = (): Date =>
    new Date(midnight.getTime() + choice.between(7 * 3600, 21 * 3600) * 1000);
  const customer = (): string => `${choice.pick(GIVEN_NAMES)} ${choice.pick(FAMILY_NAMES)}`;
  const steps: StoreStep[] = [];
  for (let index = choice.between(0, 2); index > 0; index -= 1) {
    const order = { customer: customer(), orderNumber: nextOrder() };
    const at = timeOf();
    steps.push({ at, kind: "register", unit: "tree", count: choice.between(1, 5), ...order });
    if (chance(choice, 35)) {
      const count = choice.between(2, 12);
      steps.push({ at, kind: "register", unit: "bottle", count, ...order });
    }
  }
  if (chance(choice, 8)) {
    const amountCents = choice.pick([100, 200, 500, 1000]);
    steps.push({
      at: timeOf(),
      kind: "donate",
      ein: choice.pick(CHARITIES),
      amountCents,
      customer: customer(),
      orderNumber: nextOrder(),
    });
  }
  if (day > 30 && chance(choice, 3)) {
    steps.push({ at: timeOf(), kind: "refund", quantity: choice.between(1, 3) });
  }
  return steps;
};

/** Returns what a step spends from the store's balance; refunds are left out, so the balance is never less than planned. */
const costOf = (step: StoreStep): number => {
  if (step.kind === "register") {
    return step.count * DEMO_STORE[`${step.unit}PriceCents`];
  }
  return step.kind === "donate" ? step.amountCents : 0;
};

/** Adds a payment before a step that would leave less than a quarter of the threshold. */
const withTopUps = (steps: readonly StoreStep[]): readonly StoreStep[] => {
  let balanceCents = 0;
  return steps.flatMap((step) => {
    const costCents = costOf(step);
    const isDue = costCents > 0 && balanceCents - costCents < DEMO_STORE.lowBalanceCents / 4;
    balanceCents += (isDue ? TOPUP_CENTS : 0) - costCents;
    return isDue
      ? [{ at: step.at, kind: "topup" as const, amountCents: TOPUP_CENTS }, step]
      : [step];
  });
};

/** Returns the id of the store's order whose certificate is shown: the newest one of trees and plastic. */
export const certifiedOrderOf = (periods: readonly DemoPeriod[]): string => {
  const bottles = periods
    .flatMap(({ store }) => store)
    .findLast((step) => step.kind === "register" && step.unit === "bottle");
  if (bottles?.kind !== "register") {
    throw new Error("The plan has no order with plastic.");
  }
  return `#${bottles.orderNumber}`;
};

/** Returns the time of the demo's first records. */
export const demoStartOf = (now: Date): Date =>
  new Date(Math.floor(now.getTime() / DAY_MS) * DAY_MS - DAYS * DAY_MS);

const inOrder = <Step extends { readonly at: Date }>(
  steps: readonly Step[],
  now: Date,
): readonly Step[] =>
  steps
    .filter(({ at }) => at < now)
    .toSorted((one, other) => one.at.getTime() - other.at.getTime());

/**
 * Plans the history of an organization and its store in the year before a time. The same time has the same plan.
 */
export const planDemo = (now: Date): readonly DemoPeriod[] => {
  const start = demoStartOf(now);
  const choice = chooseBySeed("demo");
  let orders = 1000;
  const nextOrder = (): number => {
    orders += 1;
    return orders;
  };
  const days = Array.from({ length: DAYS + 1 }, (_, day) => {
    const midnight = new Date(start.getTime() + day * DAY_MS);
    return {
      organization: planOrganization(choice, midnight, day, nextOrder),
      store: planStore(choice, midnight, day, nextOrder),
    };
  });
  const organization = inOrder(
    days.flatMap((day) => day.organization),
    now,
  );
  const store = withTopUps(
    inOrder(
      days.flatMap((day) => day.store),
      now,
    ),
  );
  const periods = Math.ceil((DAYS + 1) / PLANTING_ORDER_DAYS);
  return Array.from({ length: periods }, (_, index) => {
    const from = new Date(start.getTime() + index * PLANTING_ORDER_DAYS * DAY_MS);
    const until = new Date(from.getTime() + PLANTING_ORDER_DAYS * DAY_MS);
    const isWithin = ({ at }: { readonly at: Date }): boolean => at >= from && at < until;
    return {
      organization: organization.filter(isWithin),
      store: store.filter(isWithin),
      orderedAt: until < now ? until : null,
    };
  });
};
