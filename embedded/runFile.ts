import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { isRunning } from "./processIdentity.ts";
import { errorDetails } from "./errorDetails.ts";

const runFile = z.strictObject({
  pid: z.int(),
  startedAt: z.string(),
  databaseUrl: z.string(),
  temporalAddress: z.string(),
  temporalNamespace: z.string(),
  temporalUiUrl: z.string().nullable(),
  apiUrl: z.string(),
  storeUrl: z.string(),
});

/** What a running `npm start` serves, for programs that want to use it. The database address holds its password. */
export type RunFile = Readonly<z.output<typeof runFile>>;

const pathOf = (dataDir: string): string => join(dataDir, "run.json");

export const writeRunFile = async (dataDir: string, content: RunFile): Promise<void> => {
  const path = pathOf(dataDir);
  await writeFile(`${path}.new`, JSON.stringify(content, null, 2), { mode: 0o600 });
  await rename(`${path}.new`, path);
};

export const removeRunFile = (dataDir: string): Promise<void> =>
  rm(pathOf(dataDir), { force: true });

/** What runs with this data folder, or null when nothing does (a file that a crash left behind counts as nothing). */
export const readRunFile = async (dataDir: string): Promise<RunFile | null> => {
  let text: string;
  try {
    text = await readFile(pathOf(dataDir), "utf8");
  } catch (error) {
    if (errorDetails(error).code === "ENOENT") {
      return null;
    }
    throw error;
  }
  const content = runFile.parse(JSON.parse(text));
  return isRunning(content) ? content : null;
};
