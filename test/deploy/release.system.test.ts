import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { ExecutionContext } from "ava";
import test from "ava";
import { z } from "zod";
import manifest from "../../package.json" with { type: "json" };
import { makeTestFolder } from "../support/makeTestFolder.ts";

/* `.ci/release` in a repository with the files that it reads. */

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const FILES = [
  ".ci/release",
  "package.json",
  "package-lock.json",
  "clients/typescript",
  "db/migrations",
  "test/db/releases",
  "deploy/helm/impact",
  "deploy/prometheus/rules.yml",
];
/** What git ignores. */
const IGNORED = /\/(?:node_modules|dist)$/u;
const { version: VERSION } = manifest;
const CHANGELOG = `# Changelog

## [Unreleased]

## [${VERSION}] - 2026-12-01

### Added

- Everything.

## [0.0.9] - 2026-11-01

- Nothing.
`;

/** Creates a repository with this changelog and a tag of this version, and returns a function that makes a release of it. */
const createRepository = async (t: ExecutionContext, changelog: string) => {
  const folder = await makeTestFolder(t);
  for (const file of FILES) {
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await cp(join(ROOT, file), join(folder, file), {
      recursive: true,
      verbatimSymlinks: true,
      filter: (path) => !IGNORED.test(path),
    });
  }
  await writeFile(join(folder, "CHANGELOG.md"), changelog);
  const git = (...words: readonly string[]): Promise<unknown> =>
    run("git", ["-c", "user.name=test", "-c", "user.email=test@example.org", ...words], {
      cwd: folder,
    });
  await git("init", "--quiet");
  await git("add", ".");
  await git("-c", "commit.gpgsign=false", "commit", "--quiet", "--message", "Release");
  await git("tag", `v${VERSION}`);
  await git("tag", "v0.2.0");
  // A Docker that does not run.
  const env = { ...process.env, DOCKER_HOST: "unix:///nonexistent" };
  return {
    folder,
    git,
    release: (...words: readonly string[]) =>
      run(join(folder, ".ci/release"), words, { cwd: folder, env }),
  };
};

test("a release has its source, its chart, its checked client, the list of its packages, its notes and their checksums", async (t) => {
  const { folder, release } = await createRepository(t, CHANGELOG);
  const { stdout } = await release(`v${VERSION}`, "--without-image");
  const names = [
    `impact-${VERSION}.tgz`,
    `impact-tracking-client-${VERSION}.tgz`,
    `impact-tracking-service-${VERSION}.cdx.json`,
    `impact-tracking-service-${VERSION}.tar.gz`,
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
    .parse(JSON.parse(String(await read(`impact-tracking-service-${VERSION}.cdx.json`))));
  t.is(bomFormat, "CycloneDX");
  t.deepEqual(metadata.component, { name: "impact-tracking-service", version: VERSION });
  const packages = new Set(components.map(({ name }) => name));
  t.true(packages.has("koa"));
  t.false(packages.has("ava"), "what only developers need is no part of the release");
});

test("a tag without its section, or of another version, or that does not exist, makes no release", async (t) => {
  const { folder, release } = await createRepository(t, CHANGELOG.replace(VERSION, "0.1.1"));
  for (const [tag, message] of [
    [`v${VERSION}`, /CHANGELOG\.md has no section "## \[[^\]]+\] - DATE"/u],
    ["v0.2.0", new RegExp(`v0\\.2\\.0 has the version ${VERSION} in package\\.json`, "u")],
    ["v0.3.0", /there is no tag v0\.3\.0/u],
    ["0.1.0", /usage: \.ci\/release TAG/u],
  ] as const) {
    await t.throwsAsync(release(tag, "--without-image"), { message });
  }
  await t.throwsAsync(release(`v${VERSION}`, "--without"), { message: /usage: / });
  t.false((await readdir(folder)).includes("dist"));
});

test("a release without its image, or without the database of its migrations, must be asked for or is none", async (t) => {
  const { folder, git, release } = await createRepository(t, CHANGELOG);
  await t.throwsAsync(release(`v${VERSION}`), {
    message: /Docker does not respond; start it, or add --without-image/u,
  });
  await rm(join(folder, "test/db/releases"), { recursive: true });
  await writeFile(join(folder, "db/migrations/9999_later.sql"), "SELECT 1;");
  await git("add", ".");
  await git("-c", "commit.gpgsign=false", "commit", "--quiet", "--all", "--message", "Later");
  await git("tag", "--force", `v${VERSION}`);
  await t.throwsAsync(release(`v${VERSION}`, "--without-image"), {
    message:
      /no file of test\/db\/releases has the migration 9999_later; run: npm run record-release/u,
  });
  t.false((await readdir(folder)).includes("dist"));
});
