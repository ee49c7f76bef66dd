import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { readAccountSums } from "../support/accountSums.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import type { NewOrganization } from "../../modules/accounts/manageOrganizations.ts";
import { impactOf, readJson } from "../cli/runImpact.ts";
import type { Run } from "../cli/runImpact.ts";
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

/** Returns the exit code of an import and the counts that it printed with --json, of all kinds together. */
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

/** Creates an organization that moves in. */
export const setUpImport = async (t: DatabaseTest, given: Partial<NewOrganization> = {}) => {
  const { db } = t.context;
  const { id, apiKeyProd, apiKeyTest } = await createTestOrganization(db, given);
  return {
    id,
    apiKeyProd,
    apiKeyTest,
    impact: impactOf(t),
    /** Imports the content of standard input for the organization. */
    importText: (stdin: string | Buffer, ...options: readonly string[]): Promise<Run> =>
      impactOf(t, { stdin })("import", "history", "-", "--org", id, "--json", ...options),
    readSums: () => readAccountSums(db, id),
  };
};

/** Returns lines of JSON; strings are lines as they are. */
export const linesOf = (...lines: readonly (string | Fields)[]): string =>
  lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join("");

/** Imports records for a store. */
export const importForStore = (
  t: DatabaseTest,
  store: string,
  lines: readonly (string | Fields)[],
  ...options: readonly string[]
): Promise<Run> => {
  const impact = impactOf(t, { stdin: linesOf(...lines) });
  return impact("import", "history", "-", "--org", store, "--json", ...options);
};

/** Writes a file in a folder that the end of the test removes. Returns its path. */
export const writeTestFile = async (
  t: ExecutionContext,
  name: string,
  content: string | Buffer,
): Promise<string> => {
  const folder = await makeTestFolder(t);
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
};
