import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);

const CACHE = fileURLToPath(new URL("../../node_modules/.cache/python", import.meta.url));

/**
 * Installs the packages of `requirements.txt` in a virtual environment of Python, once for each version of that file, and
 * returns the folder of their programs.
 * @param name of the environment
 * @param folder that has requirements.txt
 */
export const installPythonPackages = async (name: string, folder: string): Promise<string> => {
  const environment = join(CACHE, name);
  const requirements = join(folder, "requirements.txt");
  const wanted = await readFile(requirements, "utf8");
  const installed = join(environment, "requirements.txt");
  if ((await readFile(installed, "utf8").catch(() => "")) !== wanted) {
    await run("python3", ["-m", "venv", "--clear", environment]);
    await run(
      join(environment, "bin/pip"),
      ["install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"].concat([
        "--require-hashes",
        "--requirement",
        requirements,
      ]),
    );
    await writeFile(installed, wanted);
  }
  return join(environment, "bin");
};
