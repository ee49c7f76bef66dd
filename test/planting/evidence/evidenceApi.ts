import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import type { Mode } from "../../../modules/records/owner.rules.ts";
import type { Planting } from "../../../modules/planting/createPlanting.ts";
import type { PresentedTreeEvidence } from "../../../api/endpoints/treeEvidenceSchema.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";
import { copyDatabase, openTestPool } from "../../support/database.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { setUpPlanting } from "../setUpPlanting.ts";
import type { PlantingOptions, PlantingSetup } from "../setUpPlanting.ts";

/** Creates a database for a test whose sums over all accounts must be its own. */
export const openOwnDatabase = async (t: ExecutionContext): Promise<DatabasePool> => {
  const url = await copyDatabase(t);
  return openTestPool(t, url);
};

/** Starts the standalone interface for an organization with planting; `serve` starts another process of it. */
export const startEvidenceApi = async (
  t: DatabaseTest,
  { db = t.context.db, ...options }: PlantingOptions & { readonly db?: DatabasePool } = {},
) => {
  const setup = await setUpPlanting(db, options);
  const serve = async ({ planting = setup.deps.planting }: { planting?: Planting } = {}) => {
    const { url, checkResponse } = await startStandaloneApi(t, {
      db,
      clock: setup.clock,
      planting,
      publicBaseUrl: "https://impact.example",
    });
    const read = async (
      path: string,
      { mode = "live", headers = {} }: { mode?: Mode; headers?: Record<string, string> } = {},
    ) => {
      const key = setup.organization[mode === "live" ? "apiKeyProd" : "apiKeyTest"];
      const response = await fetch(url + path, { headers: { Authorization: key, ...headers } });
      const text = await response.text();
      if (response.status !== 304) {
        checkResponse({
          method: "GET",
          path: path.replace(/\?.*$/u, ""),
          status: response.status,
          contentType: response.headers.get("Content-Type"),
          text,
        });
      }
      return {
        status: response.status,
        headers: response.headers,
        text,
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- checkResponse has held it to its schema.
        json: text === "" ? {} : (JSON.parse(text) as Evidence),
      };
    };
    return { url, read };
  };
  return { setup, serve, ...(await serve()) };
};

export const revalidate = (etag: string): Record<string, string> => ({
  "If-None-Match": etag,
});

export type Evidence = Partial<PresentedTreeEvidence> & { readonly error?: string };

export const eventsOf = ({ timeline = [] }: Evidence): readonly string[] =>
  timeline.map(({ step, event, status }) => `${String(step)} ${event} ${status}`);

export const createAndPlace = async (setup: PlantingSetup): Promise<void> => {
  await setup.createOrders();
  await setup.place();
};
