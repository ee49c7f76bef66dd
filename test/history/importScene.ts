import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { readAccountSums } from "../support/accountSums.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { startApiOf } from "../api/startStandaloneApi.ts";
import { impactOf, readJson } from "../cli/runImpact.ts";
import type { Run } from "../cli/runImpact.ts";
import { rowsIn } from "../stores/startStoreApi.ts";
import type { StoreApi, TestStore } from "../stores/startStoreApi.ts";
import type { Fields } from "./importLine.ts";

const importSummary = z.object({
  dry_run: z.boolean(),
  lines: z.int(),
  bad: z.int(),
  kinds: z.record(
    z.string(),
    z.strictObject({
      new: z.int(),
      already_there: z.int(),
      refunded_since: z.int(),
      conflict: z.int(),
    }),
  ),
});

/** Returns an import's exit code and the counts that it printed with --json, of all kinds together. */
export const summaryOf = (run: Run) => {
  const { lines, bad, kinds } = importSummary.parse(readJson(run));
  const sums = { new: 0, known: 0, refunded: 0, conflict: 0 };
  for (const kind of Object.values(kinds)) {
    sums.new += kind.new;
    sums.known += kind.already_there;
    sums.refunded += kind.refunded_since;
    sums.conflict += kind.conflict;
  }
  return { exitCode: run.exitCode, lines, ...sums, bad };
};

const importerOf = (t: DatabaseTest, id: string) => ({
  impact: impactOf(t),
  importText: (stdin: string | Buffer, ...options: readonly string[]): Promise<Run> =>
    impactOf(t, { stdin })("import", "history", "-", "--org", id, "--json", ...options),
  readSums: () => readAccountSums(t.context.db, id),
});

/** Creates an organization that moves in. */
export const setUpImport = async (t: DatabaseTest) => {
  const organization = await createTestOrganization(t.context.db);
  return { ...organization, ...importerOf(t, organization.id) };
};

/** Serves the standalone interface for an organization that moves in. */
export const serveImport = async (t: DatabaseTest) => {
  const api = await startApiOf(t);
  return { ...api, ...importerOf(t, api.id) };
};

/** Returns lines of JSON; strings are lines as they are. */
export const linesOf = (...lines: readonly (string | Fields)[]): string =>
  lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join("");

export const importForStore = (
  t: DatabaseTest,
  store: string,
  lines: readonly (string | Fields)[],
  ...options: readonly string[]
): Promise<Run> => {
  const impact = impactOf(t, { stdin: linesOf(...lines) });
  return impact("import", "history", "-", "--org", store, "--json", ...options);
};

/** Follows the pages of a store's list to the end. */
export const readPages = async (
  { get }: Pick<StoreApi, "get">,
  headers: TestStore["live"],
  { path, rows }: { readonly path: string; readonly rows: string },
  limit = 2,
): Promise<readonly Fields[]> => {
  const all: Fields[] = [];
  let cursor = "";
  do {
    const query = `limit=${limit}&after_created_at=${encodeURIComponent(cursor)}`;
    const { body } = await get(`${path}?${query}`, headers);
    all.push(...rowsIn(body, rows));
    cursor = String(body["next_cursor"]);
  } while (cursor !== "");
  return all;
};

/** Writes a file in a folder that the end of the test removes. Returns its path. */
export const writeTestFile = async (
  t: ExecutionContext,
  name: string,
  content: string | Buffer,
): Promise<string> => {
  const path = join(await makeTestFolder(t), name);
  await writeFile(path, content);
  return path;
};
