import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ExecutionContext } from "ava";

/** Creates an empty folder that is removed after the test, and that the other users may enter whom servers run as. */
export const makeTestFolder = async (t: ExecutionContext): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), "folder-"));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  await chmod(folder, 0o755);
  return folder;
};
