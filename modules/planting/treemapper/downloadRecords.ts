import { link, name } from "../fact.rules.ts";
import type { ReportedSite } from "../fact.rules.ts";
import type { LeftOut } from "../../../runtime/splitReadable.ts";
import { countLeftOut, yieldingEach } from "../../../runtime/splitReadable.ts";
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
export const isImage = (text: string | null | undefined): text is string =>
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
export type Located = {
  /** The place among the records, oldest first. */
  readonly position: number;
  readonly planting: Intervention;
  readonly trees: number;
  readonly site: ReportedSite;
};

/** What TreeMapper lists and orders cannot use until it is corrected there. */
export type UnusableRecords = {
  readonly unreadablePlantings: LeftOut;
  readonly unreadableSites: LeftOut;
  readonly plantingsWithoutLocation: LeftOut;
};

/** Plantings by their ids, oldest first. */
export type Records = ReadonlyMap<string, Located>;

/**
 * Downloads the records of a project.
 * @param onUnusable called if there are records that no order can use
 */
export const downloadRecords = async (
  access: TreeMapperAccess,
  signal: AbortSignal,
  onUnusable: (unusable: UnusableRecords) => void,
): Promise<Records> => {
  const { project, sites, plantings, ...unreadable } = await readTreeMapper(access, signal);
  const whole = describeSite(project, undefined);
  const siteOf = new Map(sites.map((site) => [site.uid, describeSite(project, site)]));
  const records = new Map<string, Located>();
  const nowhere: Intervention[] = [];
  for await (const planting of yieldingEach(plantings)) {
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
