import { donate, readDonated } from "../../modules/charities/donate.ts";
import { refundDonations } from "../../modules/charities/refundDonations.ts";
import { chooseBySeed } from "../../modules/planting/seededChoice.rules.ts";
import { resultOfOne } from "../../modules/records/batches.rules.ts";
import type { Kind, Mode } from "../../modules/records/owner.rules.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { refundRegistration } from "../../modules/registrations/refundRegistration.ts";
import { CHARITIES, createContext, DAYS } from "./history.ts";
import type { History } from "./history.ts";

/** For how long the developers have tested. */
const TEST_DAYS = 80;
const ATTRIBUTIONS = ["checkout", "checkout", "checkout", "newsletter", "loyalty", "staff"];
const COUNTRIES = ["DK", "DE", "NL", "NO", "SE", "GB"];

const campaignOf = (at: Date): string => {
  const month = at.getUTCMonth();
  if (month === 10 || month === 11) {
    return "winter";
  }
  return month >= 2 && month <= 4 ? "spring" : "always-on";
};

/** Returns how busy a day is: more each month, most before the end of the year, least at weekends. */
const activityOf = (at: Date, day: number): number =>
  (0.6 + (0.9 * day) / DAYS) *
  ({ winter: 1.7, spring: 1.2 }[campaignOf(at)] ?? 1) *
  (at.getUTCDay() % 6 === 0 ? 0.6 : 1);

/** Returns the writes of the organization. */
const createOrganizationWrites = (history: History, accountId: string) => {
  const { clock } = history;
  const context = createContext(history);
  const writer = createRegistrationWriter(context);
  const owner = { accountId, mode: "live" } as const;
  const { pick } = chooseBySeed("orders");
  let orders = 1000;

  const register = async (kind: Kind, count: number, mode: Mode = "live"): Promise<string> => {
    orders += 1;
    const { registration } = await writer.register({
      accountId,
      mode,
      kind,
      count: Math.max(1, Math.round(count)),
      fractionalCount: 0,
      idempotencyKey: `order-${orders}`,
      attribution: pick(ATTRIBUTIONS),
      metadata: {
        campaign: campaignOf(clock.now()),
        country: pick(COUNTRIES),
        order: `NS-${orders}`,
      },
      isLimited: false,
    });
    return registration.id;
  };

  const refund = (id: string, count: number | null) =>
    refundRegistration(
      context,
      { ...owner, kind: "tree" },
      { id, count, reason: "order returned", idempotencyKey: null },
    );

  const giveDonation = async (): Promise<string> => {
    orders += 1;
    const given = {
      charity: { ein: pick(CHARITIES), nonprofitId: null },
      amountCents: pick([500, 1000, 1500, 2500, 5000, 12_000]),
      charityName: null,
      idempotencyKey: `donation-${orders}`,
      attribution: pick(ATTRIBUTIONS),
      metadata: { order: `NS-${orders}` },
    };
    const donated = resultOfOne(await donate(context, owner, [given], true));
    return resultOfOne(await readDonated(context, owner, [donated])).donation.id;
  };

  const refundDonation = (id: string) =>
    refundDonations(
      context,
      owner,
      [{ id, reason: "given twice", idempotencyKey: null, metadata: {} }],
      true,
    );

  return { register, refund, giveDonation, refundDonation };
};

/** Plans the year of the organization. @returns the records to show, by what their certificates show */
export const planOrganization = (
  history: History,
  accountId: string,
  midnights: readonly Date[],
): ReadonlyMap<string, string> => {
  const { plan } = history;
  const { register, refund, giveDonation, refundDonation } = createOrganizationWrites(
    history,
    accountId,
  );
  const { pick, between } = chooseBySeed("organization");
  const chance = (percent: number): boolean => between(1, 100) <= percent;
  const shown = new Map<string, string>();
  for (const [day, midnight] of midnights.entries()) {
    const activity = activityOf(midnight, day);
    const timeOf = (from: number, to: number): Date =>
      new Date(midnight.getTime() + between(from * 3600, to * 3600) * 1000);
    for (let index = between(1, 2); index > 0; index -= 1) {
      plan(timeOf(6, 20), () => register("tree", between(3, 24) * activity));
    }
    if (chance(45)) {
      plan(timeOf(6, 20), () => register("bottle", between(4, 40) * activity));
    }
    if (day % 30 === 12) {
      // What a company orders for its own customers.
      plan(timeOf(6, 20), async () => {
        const id = await register("tree", between(180, 420) * activity);
        shown.set(day < 100 ? "verified" : "recent", id);
      });
    }
    if (day % 40 === 20) {
      plan(timeOf(6, 12), async () => {
        const id = await register("tree", between(4, 20));
        shown.set("refunded", id);
        await refund(id, day === 20 ? 2 : null);
      });
    }
    if (chance(30)) {
      plan(timeOf(8, 20), async () => {
        const id = await giveDonation();
        if (day % 50 === 0) {
          await refundDonation(id);
        } else {
          shown.set("donation", id);
        }
      });
    }
    if (day >= DAYS - TEST_DAYS && chance(60)) {
      plan(timeOf(6, 20), () => register(pick(["tree", "bottle"]), between(1, 10), "test"));
    }
  }
  return shown;
};
