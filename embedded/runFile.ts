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

/** How other programs reach a running `npm start`. `databaseUrl` contains the password. */
export type RunFile = Readonly<z.output<typeof runFile>>;

const pathOf = (dataDir: string): string => join(dataDir, "run.json");

export const writeRunFile = async (dataDir: string, content: RunFile): Promise<void> => {
  const path = pathOf(dataDir);
  await writeFile(`${path}.new`, JSON.stringify(content, null, 2), { mode: 0o600 });
  await rename(`${path}.new`, path);
};

export const removeRunFile = (dataDir: string): Promise<void> =>
  rm(pathOf(dataDir), { force: true });

/** Returns the run file of a running `npm start`, or null if there is none or it was left by a crash. */
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
