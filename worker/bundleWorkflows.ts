import { execFile } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { glob, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { bundleWorkflowCode, DefaultLogger } from "@temporalio/worker";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
/** The image of the containers has it. */
const STORED_BUNDLE = join(ROOT, "node_modules", ".cache", "workflows.js");
const MAXIMUM_BYTES = 64 * 1024 * 1024;
/** What a bundle is made of: workflows, the rules that they import, and packages. */
const SOURCES = ["workflows/*.ts", "{modules,runtime}/**/*.rules.ts"];

const hashSources = async (): Promise<string> => {
  const files = ["package-lock.json"];
  for await (const file of glob(SOURCES, { cwd: ROOT })) {
    files.push(file);
  }
  const hash = createHash("sha256");
  for (const file of files.toSorted()) {
    hash.update(`${file}\0`).update(await readFile(join(ROOT, file)));
  }
  return hash.digest("hex");
};

/**
 * Bundles the workflows for the worker's sandbox.
 * @param file stores the bundle. It is read instead of bundling again, if it was made of the same code; that saves some
 *   seconds of CPU time at each start. A file that cannot be read or written is not used.
 */
export const bundleWorkflows = async (file: string = STORED_BUNDLE) => {
  // In the first line, so that the source map stays right.
  const header = `/* ${await hashSources()} */`;
  const stored = await readFile(file, "utf8").catch(() => "");
  if (stored.startsWith(header)) {
    return { code: stored };
  }
  // A program of its own, because the bundler's memory, a hundred megabytes, would stay with the worker.
  const { stdout } = await promisify(execFile)(process.execPath, [import.meta.filename], {
    maxBuffer: MAXIMUM_BYTES,
  });
  const code = header + stdout;
  // Renamed, so that another worker never reads half of it.
  const unfinished = `${file}.${randomUUID()}`;
  try {
    await mkdir(dirname(file), { recursive: true });
    await writeFile(unfinished, code);
    await rename(unfinished, file);
  } catch {
    await rm(unfinished, { force: true }).catch(() => undefined);
  }
  return { code };
};

if (import.meta.main) {
  const { code } = await bundleWorkflowCode({
    workflowsPath: join(ROOT, "workflows", "index.ts"),
    // The bundler's progress messages do not help an operator.
    logger: new DefaultLogger("WARN"),
  });
  process.stdout.write(code);
}
