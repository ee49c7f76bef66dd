import { link, name } from "../fact.rules.ts";
import type { ReportedSite } from "../fact.rules.ts";
import type { LeftOut } from "../../../runtime/splitReadable.ts";
import { countLeftOut, yieldingEach } from "../../../runtime/splitReadable.ts";
import type { PlantingRecord } from "../creditRecords.ts";
import { centerOf, readTreeMapper, treesOf } from "./readTreeMapper.ts";
import type {
  Intervention,
  Project,
  TreeMapperAccess,
  TreeMapperRecords,
} from "./readTreeMapper.ts";

// Created once: a project may have tens of thousands of records.
const NAME = name();
const LINK = link();

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

const listMedia = (planting: Intervention): ReturnType<PlantingRecord["listMedia"]> =>
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

/** What TreeMapper lists and orders cannot use until it is corrected there. */
export type UnusableRecords = {
  readonly unreadablePlantings: LeftOut;
  readonly unreadableSites: LeftOut;
  readonly plantingsWithoutLocation: LeftOut;
};

/**
 * Downloads the records of a project, oldest first.
 * @param onUnusable called if there are records that no order can use
 */
export const downloadRecords = async (
  access: TreeMapperAccess,
  signal: AbortSignal,
  onUnusable: (unusable: UnusableRecords) => void,
): Promise<readonly PlantingRecord[]> => {
  const { project, sites, plantings, ...unreadable } = await readTreeMapper(access, signal);
  const whole = describeSite(project, undefined);
  const siteOf = new Map(sites.map((site) => [site.uid, describeSite(project, site)]));
  const records: PlantingRecord[] = [];
  const nowhere: Intervention[] = [];
  for await (const planting of yieldingEach(plantings)) {
    const { center, details } = siteOf.get(planting.plantProjectSite ?? "") ?? whole;
    const location = center ?? centerOf(planting.geometry);
    if (location) {
      records.push({
        reference: planting.id,
        startedAt: planting.interventionStartDate,
        endedAt: planting.interventionEndDate,
        trees: treesOf(planting),
        site: { ...details, ...location },
        listMedia: () => listMedia(planting),
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
