import { Gate } from "../../../runtime/gate.ts";
import { treesIn } from "../creditOrder.rules.ts";
import type { PlantingFactOf } from "../fact.rules.ts";
import type { PlantingPartner } from "../partner.ts";
import { creditFromDownload } from "./creditFromDownload.ts";
import { downloadRecords, isImage } from "./downloadRecords.ts";
import type { Located, UnusableRecords } from "./downloadRecords.ts";
import { centerOf, readProject } from "./readTreeMapper.ts";
import type { TreeMapperAccess } from "./readTreeMapper.ts";
import { shareDownloads } from "./shareDownloads.ts";

const MEDIA = 20;

/** The most that a fact may have. */
const ALLOCATIONS = 100;

/** TreeMapper has no crews. */
const NO_CREW = { leader: "", style: "", total_members: 0, women_members: 0 };

/** An order may be credited with more records than a call can have arguments. */
const earliestOf = (times: readonly Date[]): Date =>
  times.reduce((earliest, time) => (time < earliest ? time : earliest));
const latestOf = (times: readonly Date[]): Date =>
  times.reduce((latest, time) => (time > latest ? time : latest));

/** Returns the first planting of each site with all trees of the site. */
const mergeBySite = (credited: readonly Located[]): readonly Located[] => {
  const bySite = new Map<string, Located>();
  for (const located of credited) {
    const { reference } = located.site;
    const known = bySite.get(reference);
    bySite.set(reference, known ? { ...known, trees: known.trees + located.trees } : located);
  }
  return [...bySite.values()];
};

/** An order with more records than allocations has one allocation for each site, so that each site gets its trees. */
const allocatedFact = (credited: readonly Located[], at: Date): PlantingFactOf<"allocated"> => ({
  stage: "allocated",
  occurred_at: at.toISOString(),
  allocations: (credited.length > ALLOCATIONS ? mergeBySite(credited) : credited)
    .slice(0, ALLOCATIONS)
    .map(({ planting, trees, site }) => ({
      reference: planting.id,
      date_allocated: planting.interventionStartDate.toISOString(),
      trees,
      planting_site: site,
      crew: NO_CREW,
    })),
});

const mediaOf = ({ planting }: Located): PlantingFactOf<"planted">["media"] =>
  [planting, ...(planting.sampleInterventions ?? [])].flatMap(({ id, geometry, coordinates }) => {
    const center = centerOf(geometry) ?? centerOf(planting.geometry);
    const urls = (coordinates ?? []).flatMap(({ image }) =>
      isImage(image) && image.startsWith("https://") ? [image] : [],
    );
    return center
      ? urls.map((url, index) =>
          Object.assign({}, center, {
            reference: `${id}/${index + 1}`,
            type: "photo" as const,
            url,
            thumbnail_url: url,
          }),
        )
      : [];
  });

const plantedFact = (credited: readonly Located[], at: Date): PlantingFactOf<"planted"> => {
  const media: PlantingFactOf<"planted">["media"] = [];
  for (const located of credited) {
    if (media.length >= MEDIA) {
      break;
    }
    media.push(...mediaOf(located));
  }
  return { stage: "planted", occurred_at: at.toISOString(), media: media.slice(0, MEDIA) };
};

/**
 * A planting project that keeps its records in TreeMapper. The API is read-only and has no orders, so an order is credited
 * with trees that the project has recorded as planted since the order was placed. An order with all its trees is
 * allocated and planted. TreeMapper records no verification; it has to be reported.
 */
export const createTreeMapperPartner = ({
  name,
  access,
  onUnusable,
}: {
  readonly name: string;
  readonly access: TreeMapperAccess;
  /** Called after each download with records that no order can use. */
  readonly onUnusable: (unusable: UnusableRecords) => void;
}): PlantingPartner => {
  const shareDownload = shareDownloads((signal) => downloadRecords(access, signal, onUnusable));
  // Changes of claims wait for each other. Each would do so with a connection, and leave none for billing.
  const claimQueue = new Gate({ places: 1, maximumWaitMs: Infinity });
  return {
    kind: "treemapper",
    name,
    timeline: "allocations",
    isVerificationPolled: false,
    placeOrder: async ({ publicId }, signal) => {
      const { uid } = await readProject(access, signal);
      return `${uid}/${publicId}`;
    },
    fetchUpdates: async ({ treeCount, createdAt, reached }, { now, signal, claims }) => {
      if (reached.some(({ stage }) => stage === "planted")) {
        return { facts: [], nextPollMs: null };
      }
      const download = await shareDownload(now, signal, claims);
      // The order is placed later than it was created if TreeMapper was down. Trees planted before would contradict that.
      const placedAt = reached.find(({ stage }) => stage === "funds_distributed")?.occurredAt;
      const claimed = await creditFromDownload(
        download,
        { treeCount, since: placedAt ?? createdAt, now },
        claims,
        (change) =>
          claimQueue.run(undefined, () => {
            signal.throwIfAborted();
            return change();
          }),
      );
      const credited = claimed.flatMap(({ reference, trees }) => {
        const record = download.records.get(reference);
        return record ? [{ ...record, trees }] : [];
      });
      if (treesIn(credited) < treeCount) {
        return { facts: [], nextPollMs: null };
      }
      const startedAt = credited.map(({ planting }) => planting.interventionStartDate);
      const endedAt = credited.map(({ planting }) => planting.interventionEndDate);
      return {
        facts: [
          ...(reached.some(({ stage }) => stage === "allocated")
            ? []
            : [allocatedFact(credited, earliestOf(startedAt))]),
          plantedFact(credited, latestOf(endedAt)),
        ],
        nextPollMs: null,
      };
    },
  };
};
