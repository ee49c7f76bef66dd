import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { bundleWorkflows } from "../../worker/bundleWorkflows.ts";

test("a stored bundle is used while the code is the same, and replaced if it is of other code", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "bundle-"));
  t.teardown(() => rm(folder, { recursive: true }));
  const file = join(folder, "workflows.js");

  const { code } = await bundleWorkflows(file);
  t.true(code.includes("usageSender"));
  t.is(await readFile(file, "utf8"), code);

  const { mtimeMs } = await stat(file);
  t.is((await bundleWorkflows(file)).code, code);
  t.is((await stat(file)).mtimeMs, mtimeMs);

  await writeFile(file, `/* of other code */${code}`);
  t.is((await bundleWorkflows(file)).code, code);
  t.is(await readFile(file, "utf8"), code);
});

test("a bundle that cannot be stored is used all the same", async (t) => {
  const { code } = await bundleWorkflows("/nonexistent/workflows.js");
  t.true(code.includes("usageSender"));
});
