import { access, constants, readdir } from "node:fs/promises";
import { join } from "node:path";

/** Debian installs PostgreSQL programs here, in a folder per release. */
const DEBIAN_RELEASES = "/usr/lib/postgresql";

/** Returns the path of a PostgreSQL client program, null if it is not installed. The embedded package has none. */
export const findCommand = async (name: string): Promise<string | null> => {
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
