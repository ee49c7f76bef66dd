import type { PlantingFactOf, ReportedSite } from "./fact.rules.ts";
import type { PlantingPartner } from "./partner.ts";

/*
 * For partners that record plantings and have no orders: an order is credited with trees that the partner has recorded as
 * planted since the order was placed. An order with all its trees is allocated and planted.
 */

type Media = PlantingFactOf<"planted">["media"];

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

/** An order has one allocation for each site, with all of its trees there. */
const allocatedFact = (credited: readonly PlantingRecord[]): PlantingFactOf<"allocated"> => ({
  stage: "allocated",
  occurred_at: earliestOf(credited.map(({ startedAt }) => startedAt)).toISOString(),
  allocations: mergeBySite(credited)
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

type ListRecords = (signal: AbortSignal) => Promise<readonly PlantingRecord[]>;

/** Returns a function that downloads the records once for all polls of some minutes, in whatever order they come. */
const shareDownloads = (
  listRecords: ListRecords,
): ((now: Date, signal: AbortSignal) => ReturnType<ListRecords>) => {
  let latest: { readonly startedAt: Date; readonly records: ReturnType<ListRecords> } | null = null;
  return async (now, signal) => {
    if (latest === null || Math.abs(now.getTime() - latest.startedAt.getTime()) >= SHARED_MS) {
      // Activities are cancelled together, when their worker shuts down. So one signal serves all that share a download.
      latest = { startedAt: now, records: listRecords(signal) };
    }
    const shared = latest;
    try {
      return await shared.records;
    } catch (error) {
      // The next poll tries again.
      if (latest === shared) {
        latest = null;
      }
      throw error;
    }
  };
};

/** @param listRecords returns the partner's records, oldest first */
export const createRecordPolls = (listRecords: ListRecords): PlantingPartner["fetchUpdates"] => {
  const shareDownload = shareDownloads(listRecords);
  return async ({ treeCount, createdAt, reached }, { now, signal, claimTrees }) => {
    const hasReached = (wanted: string) => reached.find(({ stage }) => stage === wanted);
    if (hasReached("planted")) {
      return { facts: [], nextPollMs: null };
    }
    // The order is placed later than it was created if the partner was down. Trees planted before would contradict that.
    const since = hasReached("funds_distributed")?.occurredAt ?? createdAt;
    const records = (await shareDownload(now, signal)).filter(
      ({ startedAt, endedAt }) => startedAt >= since && endedAt <= now,
    );
    const byReference = new Map(records.map((record) => [record.reference, record]));
    const credited = (await claimTrees(records)).flatMap(({ reference, trees }) => {
      const record = byReference.get(reference);
      return record ? [{ ...record, trees }] : [];
    });
    if (credited.reduce((sum, { trees }) => sum + trees, 0) < treeCount) {
      return { facts: [], nextPollMs: null };
    }
    const allocated = hasReached("allocated") ? [] : [allocatedFact(credited)];
    return { facts: [...allocated, plantedFact(credited)], nextPollMs: null };
  };
};
