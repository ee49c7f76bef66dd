import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { serveRequests } from "../../support/server.ts";
import { createPlanting } from "../../../modules/planting/createPlanting.ts";
import type { LeftOut } from "../../../runtime/splitReadable.ts";
import {
  pollPlantingOrder,
  placePlantingOrder,
} from "../../../modules/planting/pollPlantingOrder.ts";
import { createPlantingOrders } from "../../../modules/planting/createPlantingOrders.ts";
import { listFacts } from "../../../modules/planting/facts.sql.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const KEY = "tm_test";
const NEVER = new AbortController().signal;

const SQUARE = [
  [77.232, 28.615],
  [77.236, 28.615],
  [77.236, 28.619],
  [77.232, 28.619],
  [77.232, 28.615],
];

const NAME = "Yamuna Floodplain";
const PROJECT = { uid: "proj_1", name: NAME, ecosystem: "wetland", country: "IN", target: 9 };

export const SITE = {
  uid: "site_1",
  name: "North Bank",
  location: { type: "Polygon", coordinates: [SQUARE] },
  status: "planting",
  image: null,
};

/** A record of a planting with a photo. */
export const planting = (id: string, day: string, counts: readonly number[], site = "site_1") => ({
  id,
  type: "multi-tree-registration",
  scientificName: null,
  plantDate: null,
  interventionStartDate: `${day} 05:30:00`,
  interventionEndDate: `${day} 09:45:00`,
  plantProjectSite: site === "" ? null : site,
  coordinates: [{ image: "" }],
  geometry: { type: "Polygon", coordinates: [SQUARE] },
  plantedSpecies: counts.map((treeCount) => ({ scientificName: "Dalbergia sissoo", treeCount })),
  sampleInterventions: [
    {
      id: `${id}-sample`,
      type: "sample-tree-registration",
      geometry: { type: "Point", coordinates: [77.2342, 28.6173] },
      coordinates: [{ image: `https://cdn.example/${id}.jpg` }],
    },
  ],
});

/** A double of TreeMapper's API, by its documentation. `state` holds what it serves, `requested` what was requested. */
const startTreeMapper = async (t: ExecutionContext) => {
  const state = {
    project: PROJECT,
    sites: [SITE] as readonly unknown[],
    interventions: [] as readonly unknown[],
    status: 200,
  };
  const requested: string[] = [];
  const apiBase = await serveRequests(t, (request, response) => {
    const { status: _status, ...resources } = state;
    const resource = request.url?.slice(1) ?? "";
    requested.push(resource);
    const known = new Map<string, unknown>(Object.entries(resources)).get(resource);
    const status = request.headers["x-api-key"] === KEY ? state.status : 401;
    response.statusCode = known === undefined ? 404 : status;
    response.setHeader("Content-Type", "application/json");
    const { statusCode } = response;
    const data = statusCode === 200 ? known : null;
    response.end(JSON.stringify({ statusCode, message: "m", error: null, data, code: "c" }));
  });
  return { state, requested, apiBase };
};

/** Starts TreeMapper, and an organization whose trees are planted by a project of it. */
export const startTreeMapperPlanting = async (
  t: DatabaseTest,
  {
    apiKey = KEY,
    db = t.context.db,
  }: { readonly apiKey?: string; readonly db?: DatabasePool } = {},
) => {
  const server = await startTreeMapper(t);
  const setup = await setUpPlanting(db, { start: "2026-07-01T10:00:00.000Z" });
  const unusable: LeftOut[] = [];
  const deps = {
    ...setup.deps,
    planting: createPlanting(
      {
        PLANTING_PARTNER: "treemapper",
        PLANTING_PARTNER_NAME: "Yamuna Growers",
        PLANTING_TIMELINE: "allocations",
        SIMULATED_PLANTING_SECONDS: 1,
        TREEMAPPER_API_KEY: apiKey,
        TREEMAPPER_API_BASE: server.apiBase,
      },
      (records) => unusable.push(records),
    ),
  };
  const advance = (durationMs: number): void =>
    setup.clock.set(new Date(setup.clock.now().getTime() + durationMs).toISOString());
  const pollNow = (orderId: number) => pollPlantingOrder(deps, orderId, NEVER);
  const create = async (count: number): Promise<number> => {
    await setup.register(count);
    await createPlantingOrders(deps, NEVER);
    return (await setup.orders()).at(-1)?.id ?? 0;
  };
  const place = (orderId: number) => placePlantingOrder(deps, orderId, NEVER);
  return {
    ...server,
    setup,
    /** The observed records that no order can use, by download. */
    unusable,
    create,
    place,
    advance,
    order: async (count: number): Promise<number> => {
      const id = await create(count);
      await place(id);
      return id;
    },
    pollNow,
    /** Polls an order when no earlier download is shared any more. */
    poll: (orderId: number) => {
      advance(5 * 60 * 1000);
      return pollNow(orderId);
    },
    factsOf: async (orderId: number) =>
      (await listFacts(db, orderId)).map(({ stage, state }) => `${stage} ${state}`),
  };
};
