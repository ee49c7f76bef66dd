import { createHash, randomUUID } from "node:crypto";
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleWorkflowCode, DefaultLogger } from "@temporalio/worker";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
/** What a bundle is made of: workflows, the rules that they import, and packages. */
const SOURCES = ["workflows", "modules", "runtime"];
const isSource = (file: string): boolean =>
  file.endsWith(".rules.ts") || (file.startsWith("workflows") && file.endsWith(".ts"));

/** Returns a hash of the code and of the versions of its packages. */
const hashSources = async (): Promise<string> => {
  const folders = await Promise.all(
    SOURCES.map(async (folder) =>
      (await readdir(join(ROOT, folder), { recursive: true }))
        .map((file) => join(folder, file))
        .filter(isSource),
    ),
  );
  const hash = createHash("sha256");
  for (const file of ["package-lock.json", ...folders.flat().toSorted()]) {
    hash.update(`${file}\0`).update(await readFile(join(ROOT, file)));
  }
  return hash.digest("hex");
};

/**
 * Bundles the workflows for the worker's sandbox.
 * @param file stores the bundle. It is read instead of bundling again, if it was made of the same code; that saves a
 *   second of CPU time at each start. A file that cannot be read or written is not used.
 */
export const bundleWorkflows = async (file?: string): Promise<{ readonly code: string }> => {
  // In the first line, so that the source map stays right.
  const header = `/* ${await hashSources()} */`;
  if (file !== undefined) {
    const stored = await readFile(file, "utf8").catch(() => "");
    if (stored.startsWith(header)) {
      return { code: stored };
    }
  }
  const bundle = await bundleWorkflowCode({
    workflowsPath: join(ROOT, "workflows", "index.ts"),
    // The bundler's progress messages do not help an operator.
    logger: new DefaultLogger("WARN"),
  });
  const code = header + bundle.code;
  if (file !== undefined) {
    // Renamed, so that another worker never reads half of it.
    const unfinished = `${file}.${randomUUID()}`;
    try {
      await writeFile(unfinished, code);
      await rename(unfinished, file);
    } catch {
      await rm(unfinished, { force: true }).catch(() => undefined);
    }
  }
  return { code };
};
