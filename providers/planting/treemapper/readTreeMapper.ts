import { geoCentroid } from "d3-geo";
import { z } from "zod";

/*
 * TreeMapper's public API as its documentation (Plant-for-the-Planet-org/treemapper-docs, api-integration.md) describes
 * it: read-only, one project per key, every answer in an envelope, records some minutes old. Instants come without a zone
 * and are taken for UTC.
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

/** A shape that we cannot read says as much of a place as none; the record beside it may still be good. */
const place = geometry.nullish().catch(null);

const instant = z
  .string()
  .transform(
    (text) => new Date(/[zZ]|[+-]\d{2}:\d{2}$/u.test(text) ? text : `${text.replace(" ", "T")}Z`),
  )
  .refine((date) => !Number.isNaN(date.getTime()), "is no instant");

const project = z.object({
  uid: z.string(),
  name: z.string(),
  ecosystem: z.string().nullish(),
  country: z.string().nullish(),
});

const site = z.object({
  uid: z.string(),
  name: z.string(),
  location: place,
  image: z.string().nullish(),
});

const image = z.object({ image: z.string().nullish() });

const intervention = z.object({
  id: z.string(),
  type: z.string(),
  scientificName: z.string().nullish(),
  interventionStartDate: instant,
  interventionEndDate: instant,
  plantProjectSite: z.string().nullish(),
  geometry: place,
  coordinates: z.array(image).nullish(),
  plantedSpecies: z
    .array(z.object({ scientificName: z.string().nullish(), treeCount: z.int().min(0) }))
    .nullish(),
  sampleInterventions: z
    .array(
      z.object({
        id: z.string(),
        geometry: place,
        coordinates: z.array(image).nullish(),
      }),
    )
    .nullish(),
});
export type Intervention = z.output<typeof intervention>;

export type TreeMapperProject = {
  readonly project: z.output<typeof project>;
  readonly sites: readonly z.output<typeof site>[];
  /** Only those that planted something, oldest first. */
  readonly plantings: readonly Intervention[];
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
    throw new Error(`TreeMapper answered ${response.status} to ${path}.`);
  }
  const { data } = z.object({ data: z.unknown() }).parse(await response.json());
  return schema.parse(data);
};

const PLANTING_TYPES = new Set([
  "single-tree-registration",
  "multi-tree-registration",
  "enrichment-planting",
]);

/** Trees that an intervention planted. */
export const treesOf = ({ type, plantedSpecies }: Intervention): number =>
  type === "single-tree-registration"
    ? 1
    : (plantedSpecies ?? []).reduce((sum, { treeCount }) => sum + treeCount, 0);

/** Where something is: a point, or the middle of an area; null when that is nowhere on Earth. */
export const middleOf = (
  shape: Geometry | null | undefined,
): { readonly latitude: number; readonly longitude: number } | null => {
  if (!shape) {
    return null;
  }
  const [longitude, latitude] = shape.type === "Point" ? shape.coordinates : outlineMiddle(shape);
  // An area without corners has no number for a middle, and fails this as well.
  return Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180 ? { latitude, longitude } : null;
};

/** The rings are not always wound as spherical geometry wants, so the corners of the first one are averaged on the sphere. */
const outlineMiddle = (shape: Exclude<Geometry, { type: "Point" }>): readonly [number, number] => {
  const ring = shape.type === "Polygon" ? shape.coordinates[0] : shape.coordinates[0]?.[0];
  const corners = (ring ?? []).slice(0, -1).map(([x, y]): [number, number] => [x, y]);
  return geoCentroid({ type: "MultiPoint", coordinates: corners });
};

/** Reads what a key may see: the project, its sites and what was planted. */
export const readTreeMapper = async (
  access: TreeMapperAccess,
  signal: AbortSignal,
): Promise<TreeMapperProject> => {
  const [own, sites, interventions] = await Promise.all([
    read(access, "project", project, signal),
    read(access, "sites", z.array(site), signal),
    read(access, "interventions", z.array(z.unknown()), signal),
  ]);
  const plantings = interventions
    // Other kinds of work (fire breaks, removals) have other fields and prove no tree.
    .filter((each) => PLANTING_TYPES.has(z.object({ type: z.string() }).parse(each).type))
    .map((each) => intervention.parse(each))
    .filter((each) => treesOf(each) > 0)
    .toSorted(
      (left, right) => left.interventionStartDate.getTime() - right.interventionStartDate.getTime(),
    );
  return { project: own, sites, plantings };
};
