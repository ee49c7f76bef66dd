import { treesIn } from "./creditOrder.rules.ts";
import type { PlantingFactOf, ReportedSite } from "./fact.rules.ts";
import type { Claims, PlantingPartner } from "./partner.ts";

/*
 * For partners that record plantings and have no orders: an order is credited with trees that the partner has recorded as
 * planted since the order was placed. An order with all its trees is allocated and planted.
 */

type Media = PlantingFactOf<"planted">["media"];

/** Trees that a partner has recorded as planted. */
export type PlantingRecord = {
  readonly reference: string;
  readonly startedAt: Date;
  readonly endedAt: Date;
  readonly trees: number;
  readonly site: ReportedSite;
  readonly listMedia: () => Media;
};

/** Polls within this time share a download. */
const SHARED_MS = 5 * 60 * 1000;

/** What the polls of some minutes share. */
type Download = {
  /** Oldest first. */
  readonly records: ReadonlyMap<string, PlantingRecord>;
  /** The references of the records with trees that no order had at that time. */
  readonly free: ReadonlySet<string>;
};

/** The most that a fact may have. */
const ALLOCATIONS = 100;
const MEDIA = 20;

/** Recorded plantings have no crews. */
const NO_CREW = { leader: "", style: "", total_members: 0, women_members: 0 };

/** Returns the first planting of each site with all trees of the site. */
const mergeBySite = (credited: readonly PlantingRecord[]): readonly PlantingRecord[] => {
  const bySite = new Map<string, PlantingRecord>();
  for (const record of credited) {
    const known = bySite.get(record.site.reference);
    const trees = (known?.trees ?? 0) + record.trees;
    bySite.set(record.site.reference, { ...(known ?? record), trees });
  }
  return [...bySite.values()];
};

/** An order may be credited with more records than a call can have arguments. */
const earliestOf = (times: readonly Date[]): Date =>
  times.reduce((earliest, time) => (time < earliest ? time : earliest));
const latestOf = (times: readonly Date[]): Date =>
  times.reduce((latest, time) => (time > latest ? time : latest));

/** An order with more records than allocations has one allocation for each site, so that each site gets its trees. */
const allocatedFact = (credited: readonly PlantingRecord[]): PlantingFactOf<"allocated"> => ({
  stage: "allocated",
  occurred_at: earliestOf(credited.map(({ startedAt }) => startedAt)).toISOString(),
  allocations: (credited.length > ALLOCATIONS ? mergeBySite(credited) : credited)
    .slice(0, ALLOCATIONS)
    .map(({ reference, startedAt, trees, site }) => ({
      reference,
      date_allocated: startedAt.toISOString(),
      trees,
      planting_site: site,
      crew: NO_CREW,
    })),
});

const plantedFact = (credited: readonly PlantingRecord[]): PlantingFactOf<"planted"> => {
  const media: Media = [];
  for (const { listMedia } of credited) {
    if (media.length >= MEDIA) {
      break;
    }
    media.push(...listMedia());
  }
  return {
    stage: "planted",
    occurred_at: latestOf(credited.map(({ endedAt }) => endedAt)).toISOString(),
    media: media.slice(0, MEDIA),
  };
};

/** Returns a function that downloads the records once for all polls of some minutes, in whatever order they come. */
const shareDownloads = (
  listRecords: (signal: AbortSignal) => Promise<readonly PlantingRecord[]>,
): ((now: Date, signal: AbortSignal, claims: Claims) => Promise<Download>) => {
  let latest: { readonly startedAt: Date; readonly download: Promise<Download> } | null = null;
  const download = async (signal: AbortSignal, { listCredited }: Claims): Promise<Download> => {
    const listed = await listRecords(signal);
    const records = new Map(listed.map((record) => [record.reference, record]));
    const credited = new Map(
      (await listCredited([...records.keys()])).map(({ reference, trees }) => [reference, trees]),
    );
    const free = listed.filter(({ reference, trees }) => trees > (credited.get(reference) ?? 0));
    return { records, free: new Set(free.map(({ reference }) => reference)) };
  };
  return async (now, signal, claims) => {
    if (latest === null || Math.abs(now.getTime() - latest.startedAt.getTime()) >= SHARED_MS) {
      // Activities are cancelled together, when their worker shuts down. So one signal serves all that share a download.
      latest = { startedAt: now, download: download(signal, claims) };
    }
    const shared = latest;
    try {
      return await shared.download;
    } catch (error) {
      // The next poll tries again.
      if (latest === shared) {
        latest = null;
      }
      throw error;
    }
  };
};

/**
 * Creates the polls of a partner that records plantings.
 * @param listRecords returns the partner's records, oldest first
 */
export const createRecordPolls = (
  listRecords: (signal: AbortSignal) => Promise<readonly PlantingRecord[]>,
): PlantingPartner["fetchUpdates"] => {
  const shareDownload = shareDownloads(listRecords);
  return async ({ treeCount, createdAt, reached }, { now, signal, claims }) => {
    const hasReached = (wanted: string) => reached.find(({ stage }) => stage === wanted);
    if (hasReached("planted")) {
      return { facts: [], nextPollMs: null };
    }
    const { records, free } = await shareDownload(now, signal, claims);
    // The order is placed later than it was created if the partner was down. Trees planted before would contradict that.
    const since = hasReached("funds_distributed")?.occurredAt ?? createdAt;
    const claimed = await claims.claimTrees((own) => {
      const references = new Set(own.map(({ reference }) => reference));
      return [...records.values()].filter(
        ({ reference, startedAt, endedAt }) =>
          (free.has(reference) || references.has(reference)) &&
          startedAt >= since &&
          endedAt <= now,
      );
    });
    const credited = claimed.flatMap(({ reference, trees }) => {
      const record = records.get(reference);
      return record ? [{ ...record, trees }] : [];
    });
    if (treesIn(credited) < treeCount) {
      return { facts: [], nextPollMs: null };
    }
    const allocated = hasReached("allocated") ? [] : [allocatedFact(credited)];
    return { facts: [...allocated, plantedFact(credited)], nextPollMs: null };
  };
};
