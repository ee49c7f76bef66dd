import { geoCentroid } from "d3-geo";
import { z } from "zod";
import { name } from "../fact.rules.ts";
import { boundBody } from "../../../runtime/outgoing.ts";
import type { LeftOut } from "../../../runtime/splitReadable.ts";
import { splitReadable } from "../../../runtime/splitReadable.ts";

/*
 * TreeMapper's public API, by its documentation (Plant-for-the-Planet-org/treemapper-docs, api-integration.md): read-only,
 * one project per key, each response in an envelope, records a few minutes old. Times without a zone are read as UTC.
 */

const TIMEOUT_MS = 15_000;

const position = z.tuple([z.number(), z.number()]).rest(z.number());

const geometry = z.discriminatedUnion("type", [
  z.object({ type: z.literal("Point"), coordinates: position }),
  z.object({ type: z.literal("Polygon"), coordinates: z.array(z.array(position)).min(1) }),
  z.object({
    type: z.literal("MultiPolygon"),
    coordinates: z.array(z.array(z.array(position))).min(1),
  }),
]);
type Geometry = z.output<typeof geometry>;

/** An unreadable shape counts as absent, so that the rest of the record remains usable. */
const location = geometry.nullish().catch(null);

const timestamp = z
  .string()
  .transform(
    (text) => new Date(/[zZ]|[+-]\d{2}:\d{2}$/u.test(text) ? text : `${text.replace(" ", "T")}Z`),
  )
  .refine((date) => !Number.isNaN(date.getTime()), "is not a timestamp");

const project = z.object({
  uid: name(),
  name: z.string(),
  ecosystem: z.string().nullish(),
  country: z.string().nullish(),
});

const site = z.object({
  uid: name(),
  name: z.string(),
  location,
  image: z.string().nullish(),
});

const image = z.object({ image: z.string().nullish() });

/** Photos are referred to by the record's id and a number. */
const recordId = () => name().refine((id) => id.length <= 190, "must be at most 190 characters");

const intervention = z
  .object({
    id: recordId(),
    type: z.string(),
    scientificName: z.string().nullish(),
    interventionStartDate: timestamp,
    interventionEndDate: timestamp,
    plantProjectSite: z.string().nullish(),
    geometry: location,
    coordinates: z.array(image).nullish(),
    plantedSpecies: z
      .array(z.object({ scientificName: z.string().nullish(), treeCount: z.int().min(0) }))
      .nullish(),
    sampleInterventions: z
      .array(
        z.object({
          id: recordId(),
          geometry: location,
          coordinates: z.array(image).nullish(),
        }),
      )
      .nullish(),
  })
  .refine(
    ({ interventionStartDate: start, interventionEndDate: end }) => start <= end,
    "ends before it starts",
  );
export type Intervention = z.output<typeof intervention>;

/** A large project has some ten thousand interventions of about a kilobyte each. */
const MAXIMUM_BYTES = 64 * 1024 * 1024;

/** The own records of a project, without its lists. */
export type Project = z.output<typeof project>;

export type TreeMapperRecords = {
  readonly project: Project;
  readonly sites: readonly z.output<typeof site>[];
  /** Interventions that planted trees, oldest first. */
  readonly plantings: readonly Intervention[];
  readonly unreadableSites: LeftOut;
  readonly unreadablePlantings: LeftOut;
};

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

const PLANTING_TYPES = new Set([
  "single-tree-registration",
  "multi-tree-registration",
  "enrichment-planting",
]);

/** Returns the number of trees that an intervention planted. */
export const treesOf = ({ type, plantedSpecies }: Intervention): number =>
  type === "single-tree-registration"
    ? 1
    : (plantedSpecies ?? []).reduce((sum, { treeCount }) => sum + treeCount, 0);

/** Returns a point, or the center of an area; null if it is not on Earth. */
export const centerOf = (
  shape: Geometry | null | undefined,
): { readonly latitude: number; readonly longitude: number } | null => {
  if (!shape) {
    return null;
  }
  const [longitude, latitude] = shape.type === "Point" ? shape.coordinates : ringCenter(shape);
  // An area without corners has NaN as its center and fails this test too.
  return Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180 ? { latitude, longitude } : null;
};

/** Averages the corners of the first ring on the sphere, because rings are not always wound as spherical geometry requires. */
const ringCenter = (shape: Exclude<Geometry, { type: "Point" }>): readonly [number, number] => {
  const ring = shape.type === "Polygon" ? shape.coordinates[0] : shape.coordinates[0]?.[0];
  const corners = (ring ?? []).slice(0, -1).map(([x, y]): [number, number] => [x, y]);
  return geoCentroid({ type: "MultiPoint", coordinates: corners });
};

const typedRecord = z.object({ type: z.string() });

const isPlanting = (record: unknown): boolean => {
  const { data } = typedRecord.safeParse(record);
  return data !== undefined && PLANTING_TYPES.has(data.type);
};

/** Reads the project of a key, without its sites and plantings. */
export const readProject = (access: TreeMapperAccess, signal: AbortSignal): Promise<Project> =>
  read(access, "project", project, signal);

/** Reads the project of a key, its sites and its plantings. */
export const readTreeMapper = async (
  access: TreeMapperAccess,
  signal: AbortSignal,
): Promise<TreeMapperRecords> => {
  const [own, listedSites, interventions] = await Promise.all([
    readProject(access, signal),
    read(access, "sites", z.array(z.unknown()), signal),
    read(access, "interventions", z.array(z.unknown()), signal),
  ]);
  // Other interventions (fire breaks, removals) have other fields and plant nothing.
  const planted = await splitReadable(interventions.filter(isPlanting), intervention);
  // A list that changes while TreeMapper reads it may have a record twice.
  const plantings = [...new Map(planted.readable.map((each) => [each.id, each])).values()]
    .filter((each) => treesOf(each) > 0)
    .toSorted(
      (left, right) => left.interventionStartDate.getTime() - right.interventionStartDate.getTime(),
    );
  const sites = await splitReadable(listedSites, site);
  return {
    project: own,
    sites: sites.readable,
    plantings,
    unreadableSites: sites.unreadable,
    unreadablePlantings: planted.unreadable,
  };
};
