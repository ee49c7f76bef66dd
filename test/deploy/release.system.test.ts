import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { ExecutionContext } from "ava";
import test from "ava";
import { z } from "zod";
import { makeTestFolder } from "../support/makeTestFolder.ts";

/* `.ci/release` in a repository with the files that it reads. */

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const FILES = [
  ".ci/release",
  "package.json",
  "package-lock.json",
  "deploy/helm/impact",
  "deploy/prometheus/rules.yml",
];
const CHANGELOG = `# Changelog

## [Unreleased]

## [0.1.0] - 2026-12-01

### Added

- Everything.

## [0.0.9] - 2026-11-01

- Nothing.
`;

/** Creates a repository with this changelog and a tag v0.1.0, and returns a function that makes a release of it. */
const createRepository = async (
  t: ExecutionContext,
  changelog: string,
): Promise<{
  readonly folder: string;
  readonly release: (...tag: readonly string[]) => Promise<{ readonly stdout: string }>;
}> => {
  const folder = await makeTestFolder(t);
  for (const file of FILES) {
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await cp(join(ROOT, file), join(folder, file), { recursive: true, verbatimSymlinks: true });
  }
  await writeFile(join(folder, "CHANGELOG.md"), changelog);
  const git = (...words: readonly string[]): Promise<unknown> =>
    run("git", ["-c", "user.name=test", "-c", "user.email=test@example.org", ...words], {
      cwd: folder,
    });
  await git("init", "--quiet");
  await git("add", ".");
  await git("-c", "commit.gpgsign=false", "commit", "--quiet", "--message", "Release 0.1.0");
  await git("tag", "v0.1.0");
  await git("tag", "v0.2.0");
  return { folder, release: (...tag) => run(join(folder, ".ci/release"), tag, { cwd: folder }) };
};

test("a release has its source, its chart, the list of its packages, its notes and their checksums", async (t) => {
  const { folder, release } = await createRepository(t, CHANGELOG);
  const { stdout } = await release("v0.1.0");
  const names = [
    "impact-0.1.0.tgz",
    "impact-tracking-service-0.1.0.cdx.json",
    "impact-tracking-service-0.1.0.tar.gz",
  ];
  const read = (name: string): Promise<Buffer> => readFile(join(folder, "dist", name));
  t.deepEqual(
    (await readdir(join(folder, "dist"))).toSorted((a, b) => a.localeCompare(b)),
    [...names, "release-notes.md", "SHA256SUMS"],
  );
  t.is(String(await read("release-notes.md")), "### Added\n\n- Everything.\n");
  const sums = await Promise.all(
    names.map(async (name) => {
      const sum = createHash("sha256").update(await read(name));
      return `${sum.digest("hex")}  ${name}\n`;
    }),
  );
  t.is(String(await read("SHA256SUMS")), sums.join(""));
  t.is(stdout, sums.join(""));

  const component = z.object({ name: z.string(), version: z.string() });
  const { bomFormat, metadata, components } = z
    .object({
      bomFormat: z.string(),
      metadata: z.object({ component }),
      components: z.array(component),
    })
    .parse(JSON.parse(String(await read("impact-tracking-service-0.1.0.cdx.json"))));
  t.is(bomFormat, "CycloneDX");
  t.deepEqual(metadata.component, { name: "impact-tracking-service", version: "0.1.0" });
  const packages = new Set(components.map(({ name }) => name));
  t.true(packages.has("koa"));
  t.false(packages.has("ava"), "what only developers need is no part of the release");
});

test("a tag without its section, or of another version, or that does not exist, makes no release", async (t) => {
  const { folder, release } = await createRepository(t, CHANGELOG.replace("[0.1.0]", "[0.1.1]"));
  for (const [tag, message] of [
    ["v0.1.0", /CHANGELOG\.md has no section "## \[0\.1\.0\] - DATE"/u],
    ["v0.2.0", /v0\.2\.0 has the version 0\.1\.0 in package\.json/u],
    ["v0.3.0", /there is no tag v0\.3\.0/u],
    ["0.1.0", /usage: \.ci\/release TAG/u],
  ] as const) {
    await t.throwsAsync(release(tag), { message });
  }
  t.false((await readdir(folder)).includes("dist"));
});
