import { execFile } from "node:child_process";
import { cp, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { ExecutionContext } from "ava";
import { z } from "zod";
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

const RELEASED = /^## \[(?<version>\d+\.\d+\.\d+)\]/gmu;

/** Returns the released versions that a changelog names, newest first. */
const versionsIn = (changelog: string): readonly string[] =>
  [...changelog.matchAll(RELEASED)].map(({ groups }) => groups?.["version"] ?? "");

/**
 * Returns the tag of the release before this checkout, or null before the first release.
 * @param tags the tags that exist, without those of this very commit
 * @throws Error if the release's tag is missing, as in a shallow clone
 */
export const previousTag = (
  { changelog, version }: { readonly changelog: string; readonly version: string },
  tags: { readonly earlier: readonly string[]; readonly ofThisCommit: readonly string[] },
): string | null => {
  for (const released of versionsIn(changelog)) {
    const tag = `v${released}`;
    if (tags.earlier.includes(tag)) {
      return tag;
    }
    // This commit is that release, or prepares it.
    if (!tags.ofThisCommit.includes(tag) && released !== version) {
      throw new Error(
        `CHANGELOG.md names the release ${released}, and the tag ${tag} is missing. Run: git fetch --tags --unshallow`,
      );
    }
  }
  return null;
};

const listTags = async (...options: readonly string[]): Promise<readonly string[]> => {
  const { stdout } = await run("git", ["tag", ...options], { cwd: ROOT });
  return stdout.split("\n").filter((line) => line !== "");
};

const findPreviousTag = async (): Promise<string | null> => {
  const changelog = await readFile(join(ROOT, "CHANGELOG.md"), "utf8");
  if (versionsIn(changelog).length === 0) {
    return null;
  }
  const { version } = z
    .object({ version: z.string() })
    .parse(JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")));
  const ofThisCommit = await listTags("--points-at", "HEAD");
  const earlier = (await listTags()).filter((tag) => !ofThisCommit.includes(tag));
  return previousTag({ changelog, version }, { earlier, ofThisCommit });
};

/** Gives a release its own dependencies, or this checkout's if they are the same. */
const installDependencies = async (folder: string): Promise<void> => {
  const [own, ours] = await Promise.all(
    [folder, ROOT].map((root) => readFile(join(root, "package-lock.json"), "utf8")),
  );
  await (own === ours
    ? symlink(join(ROOT, "node_modules"), join(folder, "node_modules"))
    : run("npm", ["ci", "--omit=dev", "--no-audit", "--no-fund"], { cwd: folder }));
};

const checkOutTag = async (t: ExecutionContext, tag: string): Promise<string> => {
  const folder = await makeTestFolder(t);
  const archive = join(folder, "release.tar");
  await run("git", ["archive", "--output", archive, tag], { cwd: ROOT });
  await run("tar", ["-xf", archive, "-C", folder]);
  await installDependencies(folder);
  return folder;
};

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

/** A release, and the one that follows it. */
export type Releases = {
  readonly previous: Release;
  readonly next: Release;
  /** Whether `next` says that `previous` runs on its schema. */
  readonly isCompatible: boolean;
};

/**
 * Returns the release before this checkout, and this checkout. Before the first release, these are this checkout and an
 * invented release after it.
 */
export const openReleases = async (t: ExecutionContext): Promise<Releases> => {
  const tag = await findPreviousTag();
  const [previous, next] =
    tag === null ? [ROOT, await inventNextRelease(t)] : [await checkOutTag(t, tag), ROOT];
  t.log(
    tag === null
      ? "no release yet: this checkout, and an invented release"
      : `${tag}, and this checkout`,
  );
  const known = Math.max(
    ...(await readMigrations(join(previous, "db/migrations"))).map(({ number }) => number),
  );
  const later = (await readMigrations(join(next, "db/migrations"))).filter(
    ({ number }) => number > known,
  );
  const bundles = await makeTestFolder(t);
  return {
    previous: { folder: previous, workflowBundle: join(bundles, "previous.js") },
    next: { folder: next, workflowBundle: join(bundles, "next.js") },
    isCompatible: later.every(({ runsWith }) => runsWith <= known),
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
