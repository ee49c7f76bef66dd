import type { PlantingClaim } from "../../../db/plantingClaims.ts";
import type { PlantingFactOf, ReportedSite } from "../../../domain/plantingFact.ts";
import type { PlantingPartner } from "../partner.ts";
import { middleOf, readTreeMapper, treesOf } from "./readTreeMapper.ts";
import type { Intervention, TreeMapperAccess, TreeMapperProject } from "./readTreeMapper.ts";

const MEDIA = 20;

/** TreeMapper tells nothing of crews. */
const NO_CREW = { leader: "", style: "", total_members: 0, women_members: 0 };

const countries = new Intl.DisplayNames(["en"], { type: "region" });

const countryOf = (code: string | null | undefined): string =>
  code !== null && code !== undefined && /^[A-Z]{2}$/u.test(code)
    ? (countries.of(code) ?? code)
    : "Unknown";

const siteOf = ({ project, sites }: TreeMapperProject, planting: Intervention): ReportedSite => {
  const site = sites.find(({ uid }) => uid === planting.plantProjectSite);
  const place = site?.location ?? planting.geometry;
  if (!place) {
    throw new Error(`TreeMapper's intervention ${planting.id} is nowhere.`);
  }
  return {
    reference: site?.uid ?? project.uid,
    name: site?.name ?? project.name,
    subsite_name: "",
    organization_name: project.name,
    region: project.name,
    country: countryOf(project.country),
    forest_type: project.ecosystem?.includes("mangrove") === true ? "mangrove" : "terrestrial",
    ...middleOf(place),
    main_image: site?.image ?? "",
  };
};

type Credited = { readonly planting: Intervention; readonly trees: number };

const allocatedFact = (
  project: TreeMapperProject,
  credited: readonly Credited[],
  at: Date,
): PlantingFactOf<"allocated"> => ({
  stage: "allocated",
  occurred_at: at.toISOString(),
  allocations: credited.slice(0, 100).map(({ planting, trees }) => ({
    reference: planting.id,
    date_allocated: planting.interventionStartDate.toISOString(),
    trees,
    planting_site: siteOf(project, planting),
    crew: NO_CREW,
  })),
});

const mediaOf = ({ planting }: Credited): PlantingFactOf<"planted">["media"] =>
  [planting, ...(planting.sampleInterventions ?? [])].flatMap(({ id, geometry, coordinates }) => {
    const place = geometry ?? planting.geometry;
    const urls = (coordinates ?? []).flatMap(({ image }) =>
      image?.startsWith("https://") === true ? [image] : [],
    );
    return place
      ? urls.map((url, index) =>
          Object.assign(middleOf(place), {
            reference: `${id}/${index + 1}`,
            type: "photo" as const,
            url,
            thumbnail_url: url,
          }),
        )
      : [];
  });

const plantedFact = (credited: readonly Credited[], at: Date): PlantingFactOf<"planted"> => ({
  stage: "planted",
  occurred_at: at.toISOString(),
  media: credited.flatMap(mediaOf).slice(0, MEDIA),
});

/**
 * A planting project that keeps its records in TreeMapper. Its API takes no orders and knows of none, so an order is credited
 * with trees that the project has recorded as planted since the order was made, each tree to one order only. When all are
 * there the order is allocated and planted; verification is not TreeMapper's business and comes by report.
 * @param claim credits an order, see db/plantingClaims.ts
 */
export const createTreeMapperPartner = ({
  name,
  access,
  claim,
}: {
  readonly name: string;
  readonly access: TreeMapperAccess;
  readonly claim: (
    order: { readonly id: number; readonly treeCount: number },
    records: readonly PlantingClaim[],
  ) => Promise<readonly PlantingClaim[]>;
}): PlantingPartner => ({
  kind: "treemapper",
  name,
  timeline: "allocations",
  isVerificationFollowed: false,
  placeOrder: async ({ publicId }, signal) => {
    const { project } = await readTreeMapper(access, signal);
    return `${project.uid}/${publicId}`;
  },
  readNews: async ({ id, treeCount, gatheredAt, reached }, now, signal) => {
    if (reached.some(({ stage }) => stage === "planted")) {
      return { facts: [], nextLookMs: null };
    }
    const project = await readTreeMapper(access, signal);
    const since = project.plantings.filter(
      ({ interventionStartDate, interventionEndDate }) =>
        interventionStartDate >= gatheredAt && interventionEndDate <= now,
    );
    const claims = await claim(
      { id, treeCount },
      since.map((planting) => ({ reference: planting.id, trees: treesOf(planting) })),
    );
    const credited = claims.flatMap(({ reference, trees }) => {
      const planting = project.plantings.find((each) => each.id === reference);
      return planting ? [{ planting, trees }] : [];
    });
    if (credited.reduce((sum, { trees }) => sum + trees, 0) < treeCount) {
      return { facts: [], nextLookMs: null };
    }
    const startedAtMs = credited.map(({ planting }) => planting.interventionStartDate.getTime());
    const endedAtMs = credited.map(({ planting }) => planting.interventionEndDate.getTime());
    return {
      facts: [
        ...(reached.some(({ stage }) => stage === "allocated")
          ? []
          : [allocatedFact(project, credited, new Date(Math.min(...startedAtMs)))]),
        plantedFact(credited, new Date(Math.max(...endedAtMs))),
      ],
      nextLookMs: null,
    };
  },
});
