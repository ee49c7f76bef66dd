import { access, glob, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import test from "ava";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** Returns the anchor that GitHub gives a heading. */
const anchorOf = (heading: string): string =>
  heading
    .replaceAll(/[^\p{L}\p{N}\p{M}\p{Pc} -]/gu, "")
    .toLowerCase()
    .replaceAll(" ", "-");

const readAnchors = async (path: string): Promise<readonly string[]> => {
  const headings = (await readFile(path, "utf8")).matchAll(/^#+ (?<heading>.+)$/gmu);
  return [...headings].map(({ groups }) => anchorOf(groups?.["heading"] ?? ""));
};

/** Returns what is wrong with a link, null if its file and its heading exist. */
const checkLink = async (page: string, target: string): Promise<string | null> => {
  const [path = "", anchor] = target.split("#", 2);
  const file = path === "" ? page : join(dirname(page), path);
  try {
    await access(join(ROOT, file));
  } catch {
    return `${page}: ${target} does not exist`;
  }
  return anchor === undefined || (await readAnchors(join(ROOT, file))).includes(anchor)
    ? null
    : `${page}: ${target} has no such heading`;
};

test("links between pages lead to files and headings that exist", async (t) => {
  const pages = glob(
    ["*.md", "clients/*/*.md", "deploy/**/*.md", "docs/**/*.md", ".github/**/*.md", "test/**/*.md"],
    { cwd: ROOT },
  );
  const checks: Promise<string | null>[] = [];
  for await (const page of pages) {
    const text = await readFile(join(ROOT, page), "utf8");
    const links = text.matchAll(/\]\((?<target>[^)\s]+)\)/gu);
    for (const { groups } of links) {
      const target = groups?.["target"] ?? "";
      if (!/^[a-z]+:/u.test(target)) {
        checks.push(checkLink(page, target));
      }
    }
  }
  t.true(checks.length > 50);
  t.deepEqual(
    (await Promise.all(checks)).filter((problem) => problem !== null),
    [],
  );
});

test("every name in CONTRIBUTING.md's table of rules occurs in the file beside it", async (t) => {
  const text = await readFile(join(ROOT, "CONTRIBUTING.md"), "utf8");
  const rows = [...text.matchAll(/\]\((?<path>[^)]+)\) *\| `(?<name>[^`]+)`/gu)];
  t.true(rows.length >= 15);
  const missing: string[] = [];
  for (const { groups } of rows) {
    const [path, name] = [groups?.["path"] ?? "", groups?.["name"] ?? ""];
    if (!(await readFile(join(ROOT, path), "utf8")).includes(name)) {
      missing.push(`${path}: ${name}`);
    }
  }
  t.deepEqual(missing, []);
});

test("the list of decisions has every decision with its title", async (t) => {
  const list = await readFile(join(ROOT, "docs/adr/README.md"), "utf8");
  const links: string[] = [];
  for await (const page of glob("0*.md", { cwd: join(ROOT, "docs/adr") })) {
    const text = await readFile(join(ROOT, "docs/adr", page), "utf8");
    const title = /^# \d+\. (?<title>.+)$/mu.exec(text)?.groups?.["title"] ?? "";
    links.push(`[${title}](${page})`);
  }
  t.true(links.length >= 15);
  t.deepEqual(
    links.filter((link) => !list.includes(link)),
    [],
  );
});
