import { geoCentroid } from "d3-geo";
import { z } from "zod";
import { link, name, UNKNOWN_COUNTRY } from "../fact.rules.ts";
import type { PlantingFactOf, ReportedSite } from "../fact.rules.ts";
import { boundBody } from "../../../runtime/outgoing.ts";
import { countLeftOut, splitReadable, yieldingEach } from "../../../runtime/splitReadable.ts";
import type { LeftOut } from "../../../runtime/splitReadable.ts";

/*
 * TreeMapper's public API, by its documentation (Plant-for-the-Planet-org/treemapper-docs, api-integration.md): read-only,
 * one project per key, each response in an envelope, records a few minutes old. Times without a zone are read as UTC.
 */

const TIMEOUT_MS = 15_000;

const position = z.tuple([z.number(), z.number()]).rest(z.number());

const ring = z.array(position);

/** Averages the corners of a ring on the sphere, because rings are not always wound as spherical geometry requires. */
const centerOfRing = (corners: z.output<typeof ring> = []): readonly [number, number] =>
  geoCentroid({
    type: "MultiPoint",
    coordinates: corners.slice(0, -1).map(([x, y]): [number, number] => [x, y]),
  });

/** A point, or the center of an area's first ring. One that cannot be read counts as absent, so that the rest remains usable. */
const location = z
  .union([
    z
      .object({ type: z.literal("Point"), coordinates: position })
      .transform(({ coordinates }) => coordinates),
    z
      .object({ type: z.literal("Polygon"), coordinates: z.array(ring).min(1) })
      .transform(({ coordinates: [first] }) => centerOfRing(first)),
    z
      .object({ type: z.literal("MultiPolygon"), coordinates: z.array(z.array(ring)).min(1) })
      .transform(({ coordinates: [polygon] }) => centerOfRing(polygon?.[0])),
  ])
  // An area without corners has NaN as its center and fails this test too.
  .refine(([longitude, latitude]) => Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180)
  .transform(([longitude, latitude]) => ({ latitude, longitude }))
  .nullish()
  .catch(null);
type Center = NonNullable<z.output<typeof location>>;

const timestamp = z
  .string()
  .transform(
    (text) => new Date(/[zZ]|[+-]\d{2}:\d{2}$/u.test(text) ? text : `${text.replace(" ", "T")}Z`),
  )
  .refine((date) => !Number.isNaN(date.getTime()), "is not a timestamp");

const NAME = name();
/** Names are entered by hand, and may be blank or too long; they are empty then. */
const writtenName = z.string().pipe(NAME.catch(""));

const countries = new Intl.DisplayNames(["en"], { type: "region" });

const project = z.object({
  uid: NAME,
  name: writtenName,
  ecosystem: z.string().nullish(),
  country: z
    .string()
    .regex(/^[A-Z]{2}$/u)
    .transform((code) => countries.of(code) ?? code)
    .catch(UNKNOWN_COUNTRY),
});
type Project = z.output<typeof project>;

// Created once: a project may have tens of thousands of records.
const LINK = link();

/** Image fields may hold file names. Paths are rejected too, because they would refer to this service. */
const isImage = (text: string | null | undefined): text is string =>
  /^https?:/u.test(text ?? "") && LINK.safeParse(text).success;

const site = z.object({
  uid: NAME,
  name: writtenName,
  location,
  image: z
    .string()
    .nullish()
    .transform((text) => (isImage(text) ? text : "")),
});

/** Photos are referred to by the record's id and a number. */
const pictured = z.object({
  id: name().refine((id) => id.length <= 190, "must be at most 190 characters"),
  geometry: location,
  coordinates: z.array(z.object({ image: z.string().nullish() })).nullish(),
});

/** Other interventions (fire breaks, removals) have other fields and plant nothing. */
const plantingType = z.object({
  type: z.enum(["single-tree-registration", "multi-tree-registration", "enrichment-planting"]),
});

const intervention = pictured
  .extend({
    ...plantingType.shape,
    interventionStartDate: timestamp,
    interventionEndDate: timestamp,
    plantProjectSite: z.string().nullish(),
    plantedSpecies: z.array(z.object({ treeCount: z.int().min(0) })).nullish(),
    sampleInterventions: z.array(pictured).nullish(),
  })
  .refine(
    ({ interventionStartDate: start, interventionEndDate: end }) => start <= end,
    "ends before it starts",
  );
type Intervention = z.output<typeof intervention>;

/** A large project has some ten thousand interventions of about a kilobyte each. */
const MAXIMUM_BYTES = 64 * 1024 * 1024;

export type TreeMapperAccess = { readonly apiKey: string; readonly apiBase: string };

const read = async <Schema extends z.ZodType>(
  { apiKey, apiBase }: TreeMapperAccess,
  path: string,
  schema: Schema,
  signal: AbortSignal,
): Promise<z.output<Schema>> => {
  const response = await fetch(`${apiBase}/${path}`, {
    headers: { "x-api-key": apiKey, Accept: "application/json" },
    redirect: "error",
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
  });
  if (!response.ok) {
    throw new Error(`TreeMapper returned ${response.status} for ${path}.`);
  }
  const { data } = z
    .object({ data: z.unknown() })
    .parse(await boundBody(response, MAXIMUM_BYTES).json());
  return schema.parse(data);
};

const treesOf = ({ type, plantedSpecies }: Intervention): number =>
  type === "single-tree-registration"
    ? 1
    : (plantedSpecies ?? []).reduce((sum, { treeCount }) => sum + treeCount, 0);

export const readProject = (access: TreeMapperAccess, signal: AbortSignal): Promise<Project> =>
  read(access, "project", project, signal);

/** Returns what facts say of a site, but for its location; of the project as a whole if a planting is at none. */
const describeSite = (
  own: Project,
  found: z.output<typeof site> | undefined,
): Omit<ReportedSite, keyof Center> => {
  const projectName = own.name || own.uid;
  return {
    reference: found?.uid ?? own.uid,
    name: found?.name || projectName,
    subsite_name: "",
    organization_name: projectName,
    region: projectName,
    country: own.country,
    forest_type: own.ecosystem?.includes("mangrove") === true ? "mangrove" : "terrestrial",
    main_image: found?.image ?? "",
  };
};

type Media = PlantingFactOf<"planted">["media"];

const listMedia = (planting: Intervention): Media =>
  [planting, ...(planting.sampleInterventions ?? [])].flatMap(({ id, geometry, coordinates }) => {
    const center = geometry ?? planting.geometry;
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

/** Returns what a record says of a planting. */
const recordOf = (planting: Intervention, place: ReportedSite) => ({
  reference: planting.id,
  startedAt: planting.interventionStartDate,
  endedAt: planting.interventionEndDate,
  trees: treesOf(planting),
  site: place,
  listMedia: () => listMedia(planting),
});
export type PlantingRecord = Readonly<ReturnType<typeof recordOf>>;

/**
 * Downloads the plantings of a project, oldest first.
 * @param onUnusable called if there are plantings or sites that cannot be read, or plantings without a location
 */
export const downloadRecords = async (
  access: TreeMapperAccess,
  signal: AbortSignal,
  onUnusable: (unusable: LeftOut) => void,
): Promise<readonly PlantingRecord[]> => {
  const [own, listedSites, interventions] = await Promise.all([
    readProject(access, signal),
    read(access, "sites", z.array(z.unknown()), signal),
    read(access, "interventions", z.array(z.unknown()), signal),
  ]);
  const planted = await splitReadable(
    interventions.filter((record) => plantingType.safeParse(record).success),
    intervention,
  );
  // A list that changes while TreeMapper reads it may have a record twice.
  const plantings = [...new Map(planted.readable.map((each) => [each.id, each])).values()]
    .filter((each) => treesOf(each) > 0)
    .toSorted(
      (left, right) => left.interventionStartDate.getTime() - right.interventionStartDate.getTime(),
    );
  const sites = await splitReadable(listedSites, site);
  const siteOf = new Map(sites.readable.map((each) => [each.uid, each]));
  const records: PlantingRecord[] = [];
  const nowhere: Intervention[] = [];
  for await (const planting of yieldingEach(plantings)) {
    const found = siteOf.get(planting.plantProjectSite ?? "");
    const place = found?.location ?? planting.geometry;
    if (place) {
      records.push(recordOf(planting, { ...describeSite(own, found), ...place }));
    } else {
      nowhere.push(planting);
    }
  }
  const unusable = [...planted.unreadable, ...sites.unreadable, ...nowhere];
  if (unusable.length > 0) {
    onUnusable(countLeftOut(unusable));
  }
  return records;
};
