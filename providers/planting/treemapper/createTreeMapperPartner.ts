import { createConnectionQueue } from "../../../db/connections/createConnectionQueue.ts";
import { link, name as nameOf } from "../../../domain/planting/fact.ts";
import type { PlantingFactOf, ReportedSite } from "../../../domain/planting/fact.ts";
import { claimChanges } from "../../../domain/planting/creditOrder.ts";
import type { RecordedTrees } from "../../../domain/planting/creditOrder.ts";
import type { Claims, PlantingPartner } from "../partner.ts";
import { inTurns } from "./inTurns.ts";
import { centerOf, countLeftOut, readProject, readTreeMapper, treesOf } from "./readTreeMapper.ts";
import type {
  Intervention,
  LeftOut,
  Project,
  TreeMapperAccess,
  TreeMapperRecords,
} from "./readTreeMapper.ts";

// Created once: a project may have tens of thousands of records.
const NAME = nameOf();
const LINK = link();

const MEDIA = 20;

/** Polls within this time share a download. TreeMapper itself answers with records that are a few minutes old. */
const SHARED_MS = 5 * 60 * 1000;

/** The most that a fact may have. */
const ALLOCATIONS = 100;

/** TreeMapper has no crews. */
const NO_CREW = { leader: "", style: "", total_members: 0, women_members: 0 };

const countries = new Intl.DisplayNames(["en"], { type: "region" });

const countryOf = (code: string | null | undefined): string =>
  code !== null && code !== undefined && /^[A-Z]{2}$/u.test(code)
    ? (countries.of(code) ?? code)
    : "Unknown";

/** Names are entered by hand, and may be blank or too long. */
const isName = (text: string | undefined): text is string => NAME.safeParse(text).success;

/** Image fields may hold file names. Paths are rejected too, because they would refer to this service. */
const isImage = (text: string | null | undefined): text is string =>
  /^https?:/u.test(text ?? "") && LINK.safeParse(text).success;

type Site = TreeMapperRecords["sites"][number];
type Center = NonNullable<ReturnType<typeof centerOf>>;

/** What facts say of a site; `center` is null while TreeMapper does not know its location. */
type SiteDetails = {
  readonly center: Center | null;
  readonly details: Omit<ReportedSite, keyof Center>;
};

/** Describes a site; the project as a whole if a planting is at none. */
const describeSite = (project: Project, site: Site | undefined): SiteDetails => {
  const projectName = isName(project.name) ? project.name : project.uid;
  return {
    center: centerOf(site?.location),
    details: {
      reference: site?.uid ?? project.uid,
      name: isName(site?.name) ? site.name : projectName,
      subsite_name: "",
      organization_name: projectName,
      region: projectName,
      country: countryOf(project.country),
      forest_type: project.ecosystem?.includes("mangrove") === true ? "mangrove" : "terrestrial",
      main_image: isImage(site?.image) ? site.image : "",
    },
  };
};

/** Trees of a planting, with their site. */
type Located = {
  /** The place among the records, oldest first. */
  readonly position: number;
  readonly planting: Intervention;
  readonly trees: number;
  readonly site: ReportedSite;
};

/** An order may be credited with more records than a call can have arguments. */
const earliestOf = (times: readonly Date[]): Date =>
  times.reduce((earliest, time) => (time < earliest ? time : earliest));
const latestOf = (times: readonly Date[]): Date =>
  times.reduce((latest, time) => (time > latest ? time : latest));

/** What TreeMapper lists and orders cannot use until it is corrected there. */
export type UnusableRecords = {
  readonly unreadablePlantings: LeftOut;
  readonly unreadableSites: LeftOut;
  readonly plantingsWithoutLocation: LeftOut;
};

/** Plantings by their ids, oldest first. */
type Records = ReadonlyMap<string, Located>;

/** What the polls of some minutes share. */
type Download = {
  readonly records: Records;
  /**
   * The trees of records that no order had when they were downloaded, newest record first, without those that orders got
   * since then from this process. So most polls of orders that lack trees read no record.
   */
  readonly left: Map<string, number>;
};

const downloadRecords = async (
  access: TreeMapperAccess,
  signal: AbortSignal,
  onUnusable: (unusable: UnusableRecords) => void,
): Promise<Records> => {
  const { project, sites, plantings, ...unreadable } = await readTreeMapper(access, signal);
  const whole = describeSite(project, undefined);
  const siteOf = new Map(sites.map((site) => [site.uid, describeSite(project, site)]));
  const records = new Map<string, Located>();
  const nowhere: Intervention[] = [];
  for await (const planting of inTurns(plantings)) {
    const { center, details } = siteOf.get(planting.plantProjectSite ?? "") ?? whole;
    const location = center ?? centerOf(planting.geometry);
    if (location) {
      records.set(planting.id, {
        position: records.size,
        planting,
        trees: treesOf(planting),
        site: { ...details, ...location },
      });
    } else {
      nowhere.push(planting);
    }
  }
  const unusable = { ...unreadable, plantingsWithoutLocation: countLeftOut(nowhere) };
  if (Object.values(unusable).some(({ count }) => count > 0)) {
    onUnusable(unusable);
  }
  return records;
};

const findLeft = async (
  records: Records,
  { listCredited }: Claims,
): Promise<Map<string, number>> => {
  const listed = await listCredited([...records.keys()]);
  const credited = new Map(listed.map(({ reference, trees }) => [reference, trees]));
  return new Map(
    [...records]
      .map(([id, { trees }]): [string, number] => [id, trees - (credited.get(id) ?? 0)])
      .filter(([, trees]) => trees > 0)
      .toReversed(),
  );
};

/** Returns a function that downloads the records once for all polls of some minutes, in whatever order they come. */
const shareDownloads = (
  downloadNow: (signal: AbortSignal) => Promise<Records>,
): ((now: Date, signal: AbortSignal, claims: Claims) => Promise<Download>) => {
  let latest: { readonly startedAt: Date; readonly download: Promise<Download> } | null = null;
  const download = async (signal: AbortSignal, claims: Claims): Promise<Download> => {
    const records = await downloadNow(signal);
    return { records, left: await findLeft(records, claims) };
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
 * Lists the records of which an order may have trees, oldest first: those with trees that no order had when they were
 * downloaded, and those of which it has some.
 * @param since those that began earlier are left out
 */
const listClaimable = (
  { records, left }: Download,
  own: readonly RecordedTrees[],
  since: Date,
  now: Date,
): readonly Located[] => {
  const claimable = new Set<Located>();
  for (const { reference } of own) {
    const record = records.get(reference);
    if (record) {
      claimable.add(record);
    }
  }
  for (const [id, trees] of left) {
    const record = records.get(id);
    if (!record || record.planting.interventionStartDate < since) {
      break;
    }
    if (trees > 0) {
      claimable.add(record);
    }
  }
  return [...claimable]
    .filter(
      ({ planting: { interventionStartDate, interventionEndDate } }) =>
        interventionStartDate >= since && interventionEndDate <= now,
    )
    .toSorted((one, other) => one.position - other.position);
};

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
  const claimQueue = createConnectionQueue(1);
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
      const { records, left } = download;
      // The order is placed later than it was created if TreeMapper was down. Trees planted before would contradict that.
      const placedAt = reached.find(({ stage }) => stage === "funds_distributed")?.occurredAt;
      const own = await claims.listOwn();
      const claimable = listClaimable(download, own, placedAt ?? createdAt, now);
      const claimed = await claims.claimTrees(
        claimable.map(({ planting, trees }) => ({ reference: planting.id, trees })),
        (change) =>
          claimQueue.run(() => {
            signal.throwIfAborted();
            return change();
          }),
      );
      for (const { reference, trees } of claimChanges(own, claimed).differences) {
        const before = left.get(reference);
        if (before !== undefined) {
          left.set(reference, before - trees);
        }
      }
      const credited = claimed.flatMap(({ reference, trees }) => {
        const record = records.get(reference);
        return record ? [{ ...record, trees }] : [];
      });
      if (credited.reduce((sum, { trees }) => sum + trees, 0) < treeCount) {
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
