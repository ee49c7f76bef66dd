import { LRUCache } from "lru-cache";
import type { Kind } from "../records/owner.rules.ts";
import { readDonationTotals } from "../charities/donationTotals.sql.ts";
import { findDashboardAccount } from "./dashboards.sql.ts";
import { findProfile } from "../accounts/profiles.sql.ts";
import { listLatestMedia } from "../planting/sites.sql.ts";
import type { ShownMedia } from "../planting/sites.sql.ts";
import { listPlantedSites } from "../planting/tallies.sql.ts";
import type { PlantedSite } from "../planting/tallies.sql.ts";
import { listPeriodTotals } from "../registrations/totals.sql.ts";
import { HIDEABLE_SECTIONS, UNIT_FIELDS } from "../accounts/profile.rules.ts";
import type { HideableSection, Profile, UnitField } from "../accounts/profile.rules.ts";
import { projectImpact } from "../planting/impactFactors.rules.ts";
import type { ProjectedImpact } from "../planting/impactFactors.rules.ts";
import { monthOf } from "../registrations/registrations.rules.ts";
import type { PlantingContext } from "../planting/context.ts";

const MONTHS_SHOWN = 12;
const MEDIA_SHOWN = 6;

/** The units of each kind that were registered in one month, `YYYY-MM` in UTC. */
export type MonthTotals = { readonly month: string } & Readonly<Record<UnitField, number>>;

/** An account's public data, from production keys only. */
export type Dashboard = Readonly<
  Record<UnitField, { readonly total: number; readonly month: number }>
> & {
  readonly slug: string;
  /** The account's name, or the one that its profile shows instead. */
  readonly name: string;
  readonly profile: Profile;
  readonly trees: { readonly planted: number; readonly plantedAndVerified: number };
  readonly donations: { readonly count: number; readonly amountCents: number };
  /** The last twelve months, oldest first, the current one included. */
  readonly months: readonly MonthTotals[];
  readonly sites: readonly PlantedSite[];
  readonly media: readonly ShownMedia[];
  /** Whether the partner that gets new trees plants nothing. */
  readonly isPartnerSimulated: boolean;
  /** Of planted trees only. */
  readonly projected: ProjectedImpact;
  /** The optional sections that have data and are not hidden. */
  readonly sections: ReadonlySet<HideableSection>;
  readonly updatedAt: Date;
};

/** Returns the sections that have something to show and that the organization does not hide. */
const sectionsOf = ({
  profile,
  bottles,
  donations,
  trees,
  months,
  sites,
  media,
}: Omit<Dashboard, "sections">): ReadonlySet<HideableSection> => {
  const hasData: Readonly<Record<HideableSection, boolean>> = {
    bottles: bottles.total > 0,
    donations: donations.count > 0,
    carbon: trees.planted > 0,
    months: months.some((month) =>
      Object.values(UNIT_FIELDS).some(
        (field) => month[field] > 0 && !profile.hiddenSections.some((hidden) => hidden === field),
      ),
    ),
    sites: sites.length > 0,
    photos: media.length > 0,
  };
  return new Set(
    HIDEABLE_SECTIONS.filter(
      (section) => hasData[section] && !profile.hiddenSections.includes(section),
    ),
  );
};

const lastMonths = (now: Date): readonly string[] =>
  Array.from({ length: MONTHS_SHOWN }, (_, index) =>
    monthOf(
      new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - MONTHS_SHOWN + 1 + index, 1)),
    ),
  );

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, each) => sum + each, 0);

/**
 * Reads the data of a dashboard; null if the slug is unknown. Every query reads counters or the start of an index, so an
 * account with millions of registrations costs as much as a new one.
 */
export const readDashboard = async (
  { db, clock, planting }: PlantingContext,
  slug: string,
): Promise<Dashboard | null> => {
  const account = await findDashboardAccount(db, slug);
  if (!account) {
    return null;
  }
  const { accountId, name } = account;
  const now = clock.now();
  const isPartnerSimulated = planting.countsSimulated();
  const [profile, periods, sites, media, donations] = await Promise.all([
    findProfile(db, accountId),
    listPeriodTotals(db, accountId, MONTHS_SHOWN),
    listPlantedSites(db, accountId, isPartnerSimulated),
    listLatestMedia(db, accountId, MEDIA_SHOWN, isPartnerSimulated),
    readDonationTotals(db, { accountId, mode: "live" }),
  ]);
  const totals = new Map(periods.map(({ period, ...totalsOfPeriod }) => [period, totalsOfPeriod]));
  const of = (period: string): Readonly<Record<Kind, number>> =>
    totals.get(period) ?? { tree: 0, bottle: 0 };
  const current = of(monthOf(now));
  const dashboard = {
    slug,
    name: profile.displayName ?? name,
    profile,
    trees: {
      total: of("all").tree,
      month: current.tree,
      planted: sumOf(sites.map(({ planted }) => planted)),
      plantedAndVerified: sumOf(sites.map(({ verified }) => verified)),
    },
    bottles: { total: of("all").bottle, month: current.bottle },
    donations,
    months: lastMonths(now).map((month) => ({
      month,
      trees: of(month).tree,
      bottles: of(month).bottle,
    })),
    sites,
    media,
    isPartnerSimulated,
    projected: projectImpact(sites.map(({ factorId, planted }) => ({ factorId, trees: planted }))),
    updatedAt: now,
  };
  return { ...dashboard, sections: sectionsOf(dashboard) };
};

/** All that is shown of a dashboard is read once in this time. */
const CACHED_MS = 5000;
const MAXIMUM_CACHED = 10_000;
/** As JSON. In memory, they take some times as much. */
const CACHED_BYTES = 16 * 1024 * 1024;

export type DashboardCache = {
  /** Returns the data of a dashboard if they are cached. */
  readonly find: (slug: string) => Dashboard | undefined;
  /** Reads the data of a dashboard unless they are cached; undefined if the slug is unknown. */
  readonly read: (slug: string) => Promise<Dashboard | undefined>;
};

/** Caches the data of dashboards for some seconds. Concurrent readers share one read of the database. */
export const createDashboardCache = (
  context: PlantingContext,
  { cachedMs = CACHED_MS, cachedBytes = CACHED_BYTES } = {},
): DashboardCache => {
  const cached = new LRUCache<string, Dashboard>({
    max: MAXIMUM_CACHED,
    maxSize: cachedBytes,
    sizeCalculation: (dashboard) => JSON.stringify(dashboard).length,
    ttl: cachedMs,
    fetchMethod: async (slug) => (await readDashboard(context, slug)) ?? undefined,
  });
  return {
    find: (slug) => cached.get(slug),
    read: (slug) => cached.fetch(slug),
  };
};
