import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import test from "ava";

const run = promisify(execFile);
const pathOf = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const PACKAGE = pathOf("clients/typescript");
const NPM_OPTIONS = ["--offline", "--no-audit", "--no-fund", "--ignore-scripts"];

/** A project of a stranger: nothing but the installed package. */
let project: string;

const installInEmptyProject = async (): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), "client-"));
  await run(process.execPath, [pathOf("node_modules/typescript/bin/tsc"), "--project", PACKAGE]);
  const pack = ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder];
  const packed = await run("npm", pack, { cwd: PACKAGE });
  const empty = join(folder, "project");
  await mkdir(empty);
  await writeFile(join(empty, "package.json"), '{ "type": "module", "private": true }');
  await run("npm", ["install", ...NPM_OPTIONS, join(folder, packed.stdout.trim())], { cwd: empty });
  return empty;
};

test.before(async () => {
  project = await installInEmptyProject();
});

test("the package has no dependencies, and contains what it promises", async (t) => {
  const installed = await readdir(join(project, "node_modules"));
  t.deepEqual(installed, [".package-lock.json", "impact-tracking-client"]);
  const files = await readdir(join(project, "node_modules/impact-tracking-client"));
  t.deepEqual(files.toSorted(), ["LICENSE", "README.md", "dist", "package.json", "src"]);
  t.is(await readFile(join(PACKAGE, "LICENSE"), "utf8"), await readFile(pathOf("LICENSE"), "utf8"));
});

for (const [version, compiler] of [
  ["5.9", "clients/typescript/node_modules/typescript/bin/tsc"],
  ["7", "node_modules/typescript/bin/tsc"],
] as const) {
  test(`the types compile strictly with TypeScript ${version}, for browsers and for Node`, async (t) => {
    const folder = join(project, `typescript-${version}`);
    await mkdir(folder);
    await writeFile(
      join(folder, "use.mts"),
      `import { createImpactClient, createStoreClient, verifyWebhook } from "impact-tracking-client";
      const impact = createImpactClient({ baseUrl: "", apiKey: "" });
      export const count: number = (await impact.registerTrees({ count: 1 })).tree_details[0]?.count ?? 0;
      for await (const { id } of impact.listTrees({ first: 1 })) { id satisfies string; }
      // @ts-expect-error -- the count is missing
      impact.registerTrees({});
      export const store = createStoreClient({ baseUrl: "", apiKey: "", shopName: "" });
      const webhook = await verifyWebhook({ secret: "", headers: {}, body: "" });
      export const threshold = webhook.type === "balance.low" && webhook.data.threshold_cents;
      `,
    );
    const compilerOptions = {
      target: "es2022",
      module: "nodenext",
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      noEmit: true,
      typeRoots: [pathOf("node_modules/@types")],
    };
    const dom = ["dom", "dom.iterable"];
    for (const [lib, types] of version === "7"
      ? [
          [dom, []],
          [[], ["node"]],
        ]
      : [[[], ["node"]]]) {
      const config = join(folder, "tsconfig.json");
      const options = { ...compilerOptions, lib: ["es2022", ...(lib ?? [])], types };
      await writeFile(config, JSON.stringify({ compilerOptions: options, files: ["use.mts"] }));

      const result = await run(process.execPath, [pathOf(compiler), "--project", config]).catch(
        (error: unknown) => error,
      );

      t.like(result, { stdout: "" }, String(lib));
    }
  });
}
