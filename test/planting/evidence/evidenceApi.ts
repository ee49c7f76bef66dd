import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import type { Mode } from "../../../modules/records/owner.rules.ts";
import type { Planting } from "../../../modules/planting/createPlanting.ts";
import type { PresentedTreeEvidence } from "../../../api/endpoints/treeEvidenceSchema.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";
import { copyDatabase, openTestPool } from "../../support/database.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { setUpPlanting } from "../setUpPlanting.ts";
import type { PlantingOptions } from "../setUpPlanting.ts";

/** Creates a database for a test whose sums over all accounts must be its own. */
export const openOwnDatabase = async (t: ExecutionContext): Promise<DatabasePool> =>
  openTestPool(t, await copyDatabase(t));

/** Starts the standalone interface for an organization with planting; `serve` starts another process of it. */
export const startEvidenceApi = async (
  t: DatabaseTest,
  { db = t.context.db, ...options }: PlantingOptions & { readonly db?: DatabasePool } = {},
) => {
  const setup = await setUpPlanting(db, options);
  const serve = async ({ planting = setup.deps.planting }: { planting?: Planting } = {}) => {
    const { url, call } = await startStandaloneApi(t, {
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
      const { body, ...response } = await call("GET", path, { key, headers });
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it has been checked against its schema.
      return { ...response, json: body as Evidence };
    };
    return { url, read };
  };
  return { setup, serve, ...(await serve()) };
};

export type Evidence = Partial<PresentedTreeEvidence> & { readonly error?: string };
