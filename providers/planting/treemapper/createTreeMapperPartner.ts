import { link, name as nameOf } from "../../../domain/planting/fact.ts";
import type { PlantingFactOf, ReportedSite } from "../../../domain/planting/fact.ts";
import type { PlantingPartner } from "../partner.ts";
import { centerOf, readTreeMapper, treesOf } from "./readTreeMapper.ts";
import type { Intervention, TreeMapperAccess, TreeMapperProject } from "./readTreeMapper.ts";

const MEDIA = 20;

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
const isName = (text: string | undefined): text is string => nameOf().safeParse(text).success;

/** Image fields may hold file names. Paths are rejected too, because they would refer to this service. */
const isImage = (text: string | null | undefined): text is string =>
  /^https?:/u.test(text ?? "") && link().safeParse(text).success;

/** Trees of a planting, with their site. */
type Located = {
  readonly planting: Intervention;
  readonly trees: number;
  readonly site: ReportedSite;
};

/** Returns the site of a planting; nothing while TreeMapper does not know its location. */
const locate = (
  project: TreeMapperProject["project"],
  site: TreeMapperProject["sites"][number] | undefined,
  planting: Intervention,
): readonly Located[] => {
  const center = centerOf(site?.location) ?? centerOf(planting.geometry);
  if (!center) {
    return [];
  }
  const projectName = isName(project.name) ? project.name : project.uid;
  return [
    {
      planting,
      trees: treesOf(planting),
      site: {
        reference: site?.uid ?? project.uid,
        name: isName(site?.name) ? site.name : projectName,
        subsite_name: "",
        organization_name: projectName,
        region: projectName,
        country: countryOf(project.country),
        forest_type: project.ecosystem?.includes("mangrove") === true ? "mangrove" : "terrestrial",
        ...center,
        main_image: isImage(site?.image) ? site.image : "",
      },
    },
  ];
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

const plantedFact = (credited: readonly Located[], at: Date): PlantingFactOf<"planted"> => ({
  stage: "planted",
  occurred_at: at.toISOString(),
  media: credited.flatMap(mediaOf).slice(0, MEDIA),
});

/**
 * A planting project that keeps its records in TreeMapper. The API is read-only and has no orders, so an order is credited
 * with trees that the project has recorded as planted since the order was placed. An order with all its trees is
 * allocated and planted. TreeMapper records no verification; it has to be reported.
 */
export const createTreeMapperPartner = ({
  name,
  access,
}: {
  readonly name: string;
  readonly access: TreeMapperAccess;
}): PlantingPartner => ({
  kind: "treemapper",
  name,
  timeline: "allocations",
  isVerificationPolled: false,
  placeOrder: async ({ publicId }, signal) => {
    const { project } = await readTreeMapper(access, signal);
    return `${project.uid}/${publicId}`;
  },
  fetchUpdates: async ({ treeCount, createdAt, reached }, { now, signal, claimTrees }) => {
    if (reached.some(({ stage }) => stage === "planted")) {
      return { facts: [], nextPollMs: null };
    }
    const { project, sites, plantings } = await readTreeMapper(access, signal);
    const siteOf = new Map(sites.map((site) => [site.uid, site]));
    const located = plantings.flatMap((planting) =>
      locate(project, siteOf.get(planting.plantProjectSite ?? ""), planting),
    );
    // The order is placed later than it was created if TreeMapper was down. Trees planted before would contradict that.
    const placedAt = reached.find(({ stage }) => stage === "funds_distributed")?.occurredAt;
    const since = located.filter(
      ({ planting: { interventionStartDate, interventionEndDate } }) =>
        interventionStartDate >= (placedAt ?? createdAt) && interventionEndDate <= now,
    );
    const claims = await claimTrees(
      since.map(({ planting, trees }) => ({ reference: planting.id, trees })),
    );
    const recordOf = new Map(located.map((record) => [record.planting.id, record]));
    const credited = claims.flatMap(({ reference, trees }) => {
      const record = recordOf.get(reference);
      return record ? [{ ...record, trees }] : [];
    });
    if (credited.reduce((sum, { trees }) => sum + trees, 0) < treeCount) {
      return { facts: [], nextPollMs: null };
    }
    const startedAtMs = credited.map(({ planting }) => planting.interventionStartDate.getTime());
    const endedAtMs = credited.map(({ planting }) => planting.interventionEndDate.getTime());
    return {
      facts: [
        ...(reached.some(({ stage }) => stage === "allocated")
          ? []
          : [allocatedFact(credited, new Date(Math.min(...startedAtMs)))]),
        plantedFact(credited, new Date(Math.max(...endedAtMs))),
      ],
      nextPollMs: null,
    };
  },
});
