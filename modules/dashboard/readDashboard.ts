import { readDonationTotals } from "../charities/donationTotals.sql.ts";
import { verifiedBy } from "./certificate.rules.ts";
import { listVerifications } from "./dashboards.sql.ts";
import type { FoundDashboard, VerifiedTrees } from "./dashboards.sql.ts";
import { findProfile } from "../accounts/profiles.sql.ts";
import { listLatestMedia } from "../planting/sites.sql.ts";
import { listPlantedSites } from "../planting/tallies.sql.ts";
import { listPeriodTotals } from "../registrations/totals.sql.ts";
import type { HideableSection } from "../accounts/profile.rules.ts";
import { isSimulated as isSimulatedPartner } from "../planting/order.rules.ts";
import { projectImpact } from "../planting/impactFactors.rules.ts";
import { monthOf } from "../registrations/registrations.rules.ts";
import type { PlantingContext } from "../planting/context.ts";

const MONTHS_SHOWN = 12;
const MEDIA_SHOWN = 6;

/** An account's public data, from production keys only. What the organization hides is null or empty. */
export type Dashboard = Awaited<ReturnType<typeof readDashboard>>;

const lastMonths = (now: Date): readonly string[] =>
  Array.from({ length: MONTHS_SHOWN }, (_, index) =>
    monthOf(
      new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - MONTHS_SHOWN + 1 + index, 1)),
    ),
  );

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, each) => sum + each, 0);

/** Adds up what each verifier has verified, most trees first. The latest document is shown. */
const mergeVerifications = (verified: readonly VerifiedTrees[]) => {
  const named = verified.map((each) =>
    Object.assign({ by: verifiedBy(each.verifier, each.partner, each.planters) }, each),
  );
  return [...Map.groupBy(named, ({ by, verifier }) => `${by}/${verifier}`).values()]
    .map((group) =>
      group.reduce((one, other) => ({
        ...(other.latestAt > one.latestAt ? other : one),
        trees: one.trees + other.trees,
      })),
    )
    .toSorted((one, other) => other.trees - one.trees);
};

/**
 * Reads the data of a dashboard. Every query reads counters or the start of an index, so an account with millions of
 * registrations costs as much as a new one.
 */
export const readDashboard = async (
  { db, clock, planting }: PlantingContext,
  { accountId, name }: Pick<FoundDashboard, "accountId" | "name">,
) => {
  const now = clock.now();
  const shownMonths = lastMonths(now);
  const isPartnerSimulated = isSimulatedPartner(planting.partnerFor("live").kind);
  const [profile, periods, planted, donations] = await Promise.all([
    findProfile(db, accountId),
    listPeriodTotals(db, accountId, ["all", ...shownMonths]),
    listPlantedSites(db, accountId, isPartnerSimulated),
    readDonationTotals(db, { accountId, mode: "live" }),
  ]);
  // Simulated trees do not count beside real ones, so no number is a mixture.
  const real = planted.filter(({ partner }) => !isSimulatedPartner(partner));
  const isSimulated = planted.length > 0 && real.length === 0;
  const sites = isSimulated ? planted : real;
  const [media, verifications] = await Promise.all([
    listLatestMedia(db, accountId, MEDIA_SHOWN, isSimulated),
    listVerifications(db, accountId, isSimulated),
  ]);
  const totals = new Map(periods.map(({ period, ...totalsOfPeriod }) => [period, totalsOfPeriod]));
  const isShown = (section: HideableSection): boolean => !profile.hiddenSections.includes(section);
  const of = (period: string) => {
    const { tree = 0, bottle = 0 } = totals.get(period) ?? {};
    return { month: period, trees: tree, bottles: isShown("bottles") ? bottle : 0 };
  };
  const [all, current] = [of("all"), of(monthOf(now))];
  const months = shownMonths.map(of);
  const hasMonths = isShown("months") && months.some(({ trees, bottles }) => trees + bottles > 0);
  const trees = {
    total: all.trees,
    month: current.trees,
    planted: sumOf(sites.map((site) => site.planted)),
    plantedAndVerified: sumOf(sites.map(({ verified }) => verified)),
  };
  const byFactor = sites.map(({ factorId, planted: count }) => ({ factorId, trees: count }));
  return {
    /** The account's name, or the one that its profile shows instead. */
    name: profile.displayName ?? name,
    profile,
    trees,
    bottles: isShown("bottles") ? { total: all.bottles, month: current.bottles } : null,
    donations: isShown("donations") ? donations : null,
    /** The last twelve months in UTC, oldest first, the current one included; empty if nothing was registered in them. */
    months: hasMonths ? months : [],
    sites: isShown("sites") ? sites : [],
    media: isShown("photos") ? media : [],
    /** Who has verified the trees of the latest planting orders, most trees first. */
    verifications: mergeVerifications(verifications),
    /** Whether the partner that gets new trees plants nothing. */
    isPartnerSimulated,
    /** Whether the planted trees are simulated: all or none. */
    isSimulated,
    /** Of planted trees only, with the impact factors that it was projected by. */
    projected:
      profile.showsCarbon && trees.planted > 0
        ? {
            ...projectImpact(byFactor),
            factorIds: new Set(byFactor.map(({ factorId }) => factorId)),
          }
        : null,
    updatedAt: now,
  };
};
