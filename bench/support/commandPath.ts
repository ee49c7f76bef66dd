import { access, constants, readdir } from "node:fs/promises";
import { join } from "node:path";

/** Where Debian keeps the programs of its PostgreSQL releases. */
const DEBIAN_RELEASES = "/usr/lib/postgresql";

/** Finds one of PostgreSQL's programs, which the npm package lacks; null where the machine has none. */
export const commandPath = async (name: string): Promise<string | null> => {
  const releases = await readdir(DEBIAN_RELEASES).catch(() => []);
  const folders = [
    ...(process.env["PATH"] ?? "").split(":"),
    ...releases.toReversed().map((release) => join(DEBIAN_RELEASES, release, "bin")),
  ];
  for (const folder of folders) {
    const path = join(folder, name);
    const found = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) {
      return path;
    }
  }
  return null;
};
