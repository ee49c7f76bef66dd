import { execFile } from "node:child_process";
import { cp, mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { ExecutionContext } from "ava";
import { readMigrations } from "../../db/readMigrations.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";

const run = promisify(execFile);

/** The folder of this checkout. */
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** What the programs of a release need. */
const PROGRAMS = [
  ..."activities api cli db embedded modules runtime worker workflows".split(" "),
  ..."package.json package-lock.json".split(" "),
];

const digits = (number: number): string => String(number).padStart(4, "0");

/** Copies this checkout, with one more migration that only expands the schema. */
const inventNextRelease = async (t: ExecutionContext): Promise<string> => {
  const folder = await makeTestFolder(t);
  for (const name of PROGRAMS) {
    await cp(join(ROOT, name), join(folder, name), { recursive: true });
  }
  await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
  const newest = Math.max(...(await readMigrations()).map(({ number }) => number));
  await mkdir(join(folder, "db/migrations"), { recursive: true });
  await writeFile(
    join(folder, `db/migrations/${digits(newest + 1)}_later.sql`),
    `-- @runs-with ${digits(newest)}
ALTER TABLE registration ADD COLUMN later text;
ALTER TABLE usage_fact ADD COLUMN later integer NOT NULL DEFAULT 1;
CREATE TABLE later (id integer PRIMARY KEY);
`,
  );
  return folder;
};

/** A release's folder, and the file of its bundled workflows. */
export type Release = { readonly folder: string; readonly workflowBundle: string };

/** Returns this checkout, and an invented release that follows it. */
export const openReleases = async (
  t: ExecutionContext,
): Promise<{ readonly previous: Release; readonly next: Release }> => {
  const bundles = await makeTestFolder(t);
  return {
    previous: { folder: ROOT, workflowBundle: join(bundles, "previous.js") },
    next: { folder: await inventNextRelease(t), workflowBundle: join(bundles, "next.js") },
  };
};

/** Runs `impact` of a release. Returns its standard output. */
export const runImpactOf = async (
  { folder }: Release,
  args: readonly string[],
  settings: Readonly<Record<string, string>>,
): Promise<string> => {
  const { stdout } = await run(process.execPath, [join(folder, "cli/main.ts"), ...args], {
    cwd: folder,
    env: { ...process.env, ...settings },
  });
  return stdout;
};
