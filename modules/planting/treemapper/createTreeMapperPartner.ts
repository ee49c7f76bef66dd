import { NO_CREW } from "../fact.rules.ts";
import type { PlantingFact } from "../fact.rules.ts";
import type { PlantingPartner } from "../partner.ts";
import type { LeftOut } from "../../../runtime/splitReadable.ts";
import { downloadRecords, readProject } from "./downloadRecords.ts";
import type { PlantingRecord, TreeMapperAccess } from "./downloadRecords.ts";

/** Polls within this time share a download. */
const SHARED_MS = 5 * 60 * 1000;

/** The most that a fact may have. */
const ALLOCATIONS = 100;
const MEDIA = 20;

const treesOf = (records: readonly PlantingRecord[]): number =>
  records.reduce((sum, { trees }) => sum + trees, 0);

/**
 * Returns the facts of an order that is credited with all its trees. It has one allocation for each site, with all of its trees
 * there.
 * @param credited at least one record, the oldest first
 */
const factsOf = (credited: readonly PlantingRecord[]): readonly PlantingFact[] => {
  const [startedAt = new Date(0)] = credited.map((record) => record.startedAt);
  const endedAtMs = credited.reduce((last, { endedAt }) => Math.max(last, endedAt.getTime()), 0);
  const bySite = Map.groupBy(credited, ({ site }) => site.reference);
  return [
    {
      stage: "allocated",
      occurred_at: startedAt.toISOString(),
      allocations: [...bySite.values()].slice(0, ALLOCATIONS).flatMap((ofSite) =>
        ofSite.slice(0, 1).map((first) => ({
          reference: first.reference,
          date_allocated: first.startedAt.toISOString(),
          trees: treesOf(ofSite),
          planting_site: first.site,
          crew: NO_CREW,
        })),
      ),
    },
    {
      stage: "planted",
      occurred_at: new Date(endedAtMs).toISOString(),
      media: credited
        .values()
        .flatMap(({ listMedia }) => listMedia())
        .take(MEDIA)
        .toArray(),
    },
  ];
};

type ListRecords = (signal: AbortSignal) => Promise<readonly PlantingRecord[]>;

/** Returns a function that downloads the records once for all polls of some minutes, in whatever order they come. */
const shareDownloads = (listRecords: ListRecords) => {
  let latest: { readonly startedAt: Date; readonly records: ReturnType<ListRecords> } | null = null;
  return (now: Date, signal: AbortSignal) => {
    if (latest === null || Math.abs(now.getTime() - latest.startedAt.getTime()) >= SHARED_MS) {
      // Activities are cancelled together, when their worker shuts down. So one signal serves all that share a download.
      const started = { startedAt: now, records: listRecords(signal) };
      latest = started;
      started.records.catch(() => {
        // The next poll tries again.
        latest = latest === started ? null : latest;
      });
    }
    return latest.records;
  };
};

/**
 * A planting project that keeps its records in TreeMapper. The API is read-only and has no orders, so an order is credited with
 * trees that were recorded as planted since it was placed; one with all its trees is allocated and planted. TreeMapper records
 * no verification; it has to be reported.
 * @param onUnusable called after each download with records that no order can use
 */
export const createTreeMapperPartner = (
  partnerName: string,
  access: TreeMapperAccess,
  onUnusable: (unusable: LeftOut) => void,
): PlantingPartner => {
  const download = shareDownloads((signal) => downloadRecords(access, signal, onUnusable));
  return {
    kind: "treemapper",
    name: partnerName,
    timeline: "allocations",
    isVerificationPolled: false,
    placeOrder: async ({ publicId }, signal) => {
      const { uid } = await readProject(access, signal);
      return `${uid}/${publicId}`;
    },
    fetchUpdates: async ({ treeCount, createdAt, reached }, { now, signal, claimTrees }) => {
      const reachedAt = new Map(reached.map(({ stage, occurredAt }) => [stage, occurredAt]));
      if (reachedAt.has("planted")) {
        return { facts: [], nextPollMs: null };
      }
      // The order is placed later than it was created if TreeMapper was down. Trees planted before would contradict that.
      const since = reachedAt.get("funds_distributed") ?? createdAt;
      const records = (await download(now, signal)).filter(
        ({ startedAt, endedAt }) => startedAt >= since && endedAt <= now,
      );
      const byReference = new Map(records.map((record) => [record.reference, record]));
      const credited = (await claimTrees(records)).flatMap(({ reference, trees }) => {
        const record = byReference.get(reference);
        return record ? [{ ...record, trees }] : [];
      });
      const facts = treesOf(credited) < treeCount ? [] : factsOf(credited);
      return { facts: facts.filter(({ stage }) => !reachedAt.has(stage)), nextPollMs: null };
    },
  };
};
