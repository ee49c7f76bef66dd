import { claimDifferences, treesIn } from "./creditOrder.rules.ts";
import type { RecordedTrees } from "./creditOrder.rules.ts";
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
  readonly records: ReadonlyMap<string, PlantingRecord>;
  /** The trees of each record that no order has, as far as this process knows; of the records that had any, oldest first. */
  readonly left: Map<string, number>;
};

/** Counts the trees of each record that no order has. */
const countLeft = async (
  { records, left }: Download,
  { listCredited }: Pick<Claims, "listCredited">,
): Promise<void> => {
  const listed = await listCredited([...records.keys()]);
  const credited = new Map(listed.map(({ reference, trees }) => [reference, trees]));
  left.clear();
  for (const { reference, trees } of records.values()) {
    if (trees > (credited.get(reference) ?? 0)) {
      left.set(reference, trees - (credited.get(reference) ?? 0));
    }
  }
};

type Order = { readonly treeCount: number; readonly since: Date; readonly now: Date };

/**
 * Chooses the records that an order may need: those of which it has trees, and the oldest ones with trees that no order
 * has, as far as this process knows.
 * @returns the records, oldest first, and how many trees of them the order gets if that is true
 */
const chooseRecords = (
  { records, left }: Download,
  { treeCount, since, now }: Order,
  own: readonly RecordedTrees[],
): { readonly chosen: readonly RecordedTrees[]; readonly expected: number } => {
  // Numbers, because comparing the dates of thousands of records takes many times as long.
  const [sinceMs, nowMs] = [since.getTime(), now.getTime()];
  const isInTime = ({ startedAt, endedAt }: PlantingRecord): boolean =>
    startedAt.getTime() >= sinceMs && endedAt.getTime() <= nowMs;
  const chosen = new Set<PlantingRecord>();
  let missing = treeCount;
  for (const { reference, trees } of own) {
    const record = records.get(reference);
    if (record && isInTime(record)) {
      chosen.add(record);
      missing -= Math.min(trees, record.trees);
    }
  }
  for (const [reference, trees] of left) {
    if (missing <= 0) {
      break;
    }
    const record = records.get(reference);
    if (record && trees > 0 && isInTime(record)) {
      chosen.add(record);
      missing -= trees;
    }
  }
  return {
    chosen: [...chosen].toSorted(
      (one, other) => one.startedAt.getTime() - other.startedAt.getTime(),
    ),
    expected: treeCount - Math.max(missing, 0),
  };
};

/**
 * Credits an order with trees of downloaded records, which are then no longer left.
 * @returns all trees that the order is credited with
 */
const credit = async (
  download: Download,
  order: Order,
  claims: Claims,
): Promise<readonly RecordedTrees[]> => {
  for (let isRepeated = false; ; isRepeated = true) {
    let expected = 0;
    const { before, after } = await claims.claimTrees((own) => {
      const choice = chooseRecords(download, order, own);
      ({ expected } = choice);
      return choice.chosen;
    });
    if (treesIn(after) < expected && !isRepeated) {
      // Other processes have taken trees of these records since the download.
      await countLeft(download, claims);
      continue;
    }
    for (const { reference, trees } of claimDifferences(before, after)) {
      download.left.set(reference, (download.left.get(reference) ?? 0) - trees);
    }
    return after;
  }
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
  const download = async (signal: AbortSignal, claims: Claims): Promise<Download> => {
    const listed = await listRecords(signal);
    const records = new Map(listed.map((record) => [record.reference, record]));
    const downloaded = { records, left: new Map<string, number>() };
    await countLeft(downloaded, claims);
    return downloaded;
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
    const download = await shareDownload(now, signal, claims);
    // The order is placed later than it was created if the partner was down. Trees planted before would contradict that.
    const since = hasReached("funds_distributed")?.occurredAt ?? createdAt;
    const claimed = await credit(download, { treeCount, since, now }, claims);
    const credited = claimed.flatMap(({ reference, trees }) => {
      const record = download.records.get(reference);
      return record ? [{ ...record, trees }] : [];
    });
    if (treesIn(credited) < treeCount) {
      return { facts: [], nextPollMs: null };
    }
    const allocated = hasReached("allocated") ? [] : [allocatedFact(credited)];
    return { facts: [...allocated, plantedFact(credited)], nextPollMs: null };
  };
};
